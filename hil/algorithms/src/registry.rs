//! Both machines of an algorithm by its name: the reaction point, and the notification point that it names.

use anyhow::{Context, Result, bail};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

/// The error for an unknown name. [`explained`] suggests the nearest known one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// The kind of name that was expected: algorithm, parameter and so on.
    pub what: String,
    /// The unknown name.
    pub typed: String,
    /// The known names.
    pub known: Vec<&'static str>,
}

impl UnknownName {
    /// A name that is none of `known`.
    pub fn new(what: &str, typed: &str, known: impl Iterator<Item = &'static str>) -> Self {
        Self { what: what.to_owned(), typed: typed.to_owned(), known: known.collect() }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {}", self.what, self.typed)
    }
}

impl Error for UnknownName {}

/// An error in one line. For an unknown name it suggests the nearest known one.
pub fn explained(error: &anyhow::Error) -> String {
    match error.downcast_ref::<UnknownName>() {
        Some(UnknownName { typed, known, .. }) => format!("{error:#}: {}", expected(typed, known.iter().copied())),
        None => format!("{error:#}"),
    }
}

/// "did you mean x?" if a known name is near the typed one; otherwise "expected one of x, y, z", or a reference to `hil list`
/// if there are more than 12 names. Near is an edit distance of at most 1 plus a quarter of the typed letters.
pub fn expected<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.iter().min_by_key(|name| distance(typed, name)) {
        Some(name) if is_near(typed, name) && names.len() > 1 => format!("did you mean {name}?"),
        _ if names.len() <= 12 => format!("expected one of {}", names.join(", ")),
        _ => "hil list shows them all".to_owned(),
    }
}

/// Whether a name is so near to the typed one that it may be meant: see [`expected`].
pub fn is_near(typed: &str, name: &str) -> bool {
    distance(typed, name) <= 1 + typed.len() / 4
}

fn distance(typed: &str, name: &str) -> usize {
    strsim::levenshtein(&typed.to_lowercase(), &name.to_lowercase())
}

/// A function that is generic over the two machines, for an algorithm chosen by name at run time.
pub trait Visitor {
    /// The function's result.
    type Output;

    /// Called with the types of the two machines.
    fn visit<A: ReactionPoint, N: NotificationPoint>(self) -> Self::Output;
}

/// Calls a visitor with the machines of the algorithm of this name.
///
/// # Errors
/// There is no such reaction point, or its notification point is missing.
pub fn with<V: Visitor>(name: &str, visitor: V) -> Result<V::Output> {
    cc_rp::registry::with(name, AtSender(visitor)).unwrap_or_else(|| {
        let names = cc_rp::registry::ALL.iter().map(|entry| entry.name);
        bail!(UnknownName::new("algorithm", name, names))
    })
}

/// The names of all algorithms, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    cc_rp::registry::ALL.iter().map(|entry| entry.name)
}

/// First step of [`with`]: finds the reaction point.
struct AtSender<V>(V);

impl<V: Visitor> cc_rp::registry::Visitor for AtSender<V> {
    type Output = Result<V::Output>;

    fn visit<A: ReactionPoint>(self) -> Self::Output {
        let receiver = programs::receiver_name::<A>();
        let at_receiver = AtReceiver { visitor: self.0, sender: PhantomData::<A> };
        cc_np::registry::with(receiver, at_receiver)
            .flatten()
            .with_context(|| format!("{}: its notification point {receiver} is missing", A::NAME))
    }
}

/// Second step of [`with`]: the reaction point is `A`; finds the notification point.
struct AtReceiver<V, A> {
    visitor: V,
    sender: PhantomData<A>,
}

impl<V: Visitor, A: ReactionPoint> cc_np::registry::Visitor for AtReceiver<V, A> {
    type Output = Option<V::Output>;

    fn visit<N: NotificationPoint>(self) -> Self::Output {
        // A constant: no code is generated for machines that do not belong together.
        if const { programs::is_pair::<A, N>() } { Some(self.visitor.visit::<A, N>()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Visitor for Names {
        type Output = (&'static str, &'static str);

        fn visit<A: ReactionPoint, N: NotificationPoint>(self) -> Self::Output {
            (A::NAME, N::NAME)
        }
    }

    #[test]
    fn near_names_are_offered() {
        let names = ["rpg_ai_rate", "rpg_hai_rate", "cnp_dscp"];
        assert_eq!(expected("RPG_ai_rat", names.into_iter()), "did you mean rpg_ai_rate?");
        assert_eq!(expected("zzz", names.into_iter()), "expected one of rpg_ai_rate, rpg_hai_rate, cnp_dscp");
        let error = anyhow::Error::new(UnknownName::new("parameter", "zzz", names.into_iter())).context("--set zzz=1");
        let line = "--set zzz=1: unknown parameter zzz: expected one of rpg_ai_rate, rpg_hai_rate, cnp_dscp";
        assert_eq!(explained(&error), line);
    }

    #[test]
    fn a_visitor_gets_the_notification_point_that_the_reaction_point_names() {
        assert_eq!(with("dcqcn", Names).unwrap(), ("dcqcn", "dcqcn"));
        let unknown = with("dcqcm", Names).unwrap_err();
        assert_eq!(unknown.to_string(), "unknown algorithm dcqcm");
        assert!(unknown.downcast_ref::<UnknownName>().unwrap().known.starts_with(&["dcqcn"]));
    }
}
