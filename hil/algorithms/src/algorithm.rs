//! An algorithm that is chosen at run time, as a trait object.

use crate::nics::{Natives, NicGroup, NicSize};
use crate::registry;
use crate::settings_table::{SettingsTable, names, preset};
use anyhow::{Context, Result};
use cc_core::Link;
use cc_core::params::ParamError;
use cc_np::NotificationPoint;
use cc_rp::{ReactionPoint, Signals};
use programs::layout::ImageInfo;
use programs::{Full, Nic, Small};
use std::marker::PhantomData;

/// Both machines of an algorithm: the reaction point, and the notification point that it names.
pub trait Algorithm {
    /// Its name, which is the reaction point's.
    fn name(&self) -> &'static str;

    /// The name of its notification point.
    fn receiver(&self) -> &'static str;

    /// The signals that its sender reacts to.
    fn signals(&self) -> Signals;

    /// The texts of the rows of the machines' transition tables: the reaction point's and the notification point's.
    fn transitions(&self) -> [&'static [&'static str]; 2];

    /// The names of the reaction point's presets, the default first.
    fn preset_names(&self) -> Vec<&'static str>;

    /// Name and values of a preset of each machine. For the reaction point: the preset of this name, or the first if `name` is
    /// `None`. For the notification point: its preset of the same name; if it has none, `ternary` if the reaction point reacts
    /// to TCD's marks, otherwise its first.
    ///
    /// # Errors
    /// The reaction point has no preset of this name.
    fn presets(&self, name: Option<&str>) -> Result<[(&'static str, SettingsTable); 2]>;

    /// Checks that the settings fit each other and the link.
    ///
    /// # Errors
    /// They do not.
    fn check(&self, link: &Link, settings: [&SettingsTable; 2]) -> Result<(), ParamError>;

    /// The sizes of a NIC's states and tables, as its image has them.
    fn info(&self, size: NicSize) -> ImageInfo;

    /// An empty group of NICs that run this algorithm on ports like `link`, with these settings of the two machines.
    ///
    /// # Errors
    /// The settings contradict each other or the link.
    fn nics(&self, link: Link, settings: [&SettingsTable; 2]) -> Result<Box<dyn NicGroup>, ParamError>;
}

/// The algorithm of this name.
///
/// # Errors
/// No algorithm has this name, or its notification point is missing.
pub fn algorithm(name: &str) -> Result<Box<dyn Algorithm>> {
    registry::with(name, Boxed)
}

struct Boxed;

impl registry::Visitor for Boxed {
    type Output = Box<dyn Algorithm>;

    fn visit<A: ReactionPoint, N: NotificationPoint>(self) -> Self::Output {
        Box::new(Pair::<A, N>::new())
    }
}

/// The place of the notification point's preset, among `names`, for a reaction point that has this preset and these signals.
fn partner(preset: &str, signals: Signals, names: &[&str]) -> usize {
    let named = |name| names.iter().position(|other| *other == name);
    let ternary = signals.contains(Signals::UNDETERMINED).then(|| named("ternary")).flatten();
    named(preset).or(ternary).unwrap_or(0)
}

/// An algorithm of these machines.
pub(crate) struct Pair<A, N>(PhantomData<(A, N)>);

impl<A, N> Pair<A, N> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: ReactionPoint, N: NotificationPoint> Algorithm for Pair<A, N> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn receiver(&self) -> &'static str {
        N::NAME
    }

    fn signals(&self) -> Signals {
        A::SIGNALS
    }

    fn transitions(&self) -> [&'static [&'static str]; 2] {
        [A::TRANSITIONS, N::TRANSITIONS]
    }

    fn preset_names(&self) -> Vec<&'static str> {
        names(A::PRESETS)
    }

    fn presets(&self, name: Option<&str>) -> Result<[(&'static str, SettingsTable); 2]> {
        let rp = preset(A::NAME, A::PRESETS, name)?;
        let place = partner(rp.name, A::SIGNALS, &names(N::PRESETS));
        let np = N::PRESETS.get(place).context("the notification point has no preset")?;
        Ok([(rp.name, SettingsTable::of(&rp.values)), (np.name, SettingsTable::of(&np.values))])
    }

    fn check(&self, link: &Link, [rp, np]: [&SettingsTable; 2]) -> Result<(), ParamError> {
        A::check(&rp.typed(const { A::PRESETS[0].values }), link)?;
        N::check(&np.typed(const { N::PRESETS[0].values }), link)?;
        Ok(())
    }

    fn info(&self, size: NicSize) -> ImageInfo {
        match size {
            NicSize::Full => Nic::<A, N, Full>::INFO,
            NicSize::Small => Nic::<A, N, Small>::INFO,
        }
    }

    fn nics(&self, link: Link, [rp, np]: [&SettingsTable; 2]) -> Result<Box<dyn NicGroup>, ParamError> {
        let rp = rp.typed(const { A::PRESETS[0].values });
        let np = np.typed(const { N::PRESETS[0].values });
        Ok(Box::new(Natives::<A, N>::new(link, rp, np)?))
    }
}
