//! The firmware image of any stages in one chain. Its build needs the path of a file that declares the chain, in `RNIC_CC_CHAIN`; `hil`
//! writes that file: `rv32::stage!(chain: cc_cp::Chain<stages::red, stages::int>);`
#![no_std]
#![no_main]

/// Declares the stages of the registry by their names.
macro_rules! stages {
    ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => {
        /// The stages by their names.
        #[allow(non_camel_case_types, unused, reason = "the names of the registry, of which a chain has some")]
        mod stages {
            $(pub(crate) type $name = cc_cp::$first $(:: $rest)+;)+
        }
    };
}

cc_cp::for_each_cp!(stages);

include!(env!("RNIC_CC_CHAIN"));
