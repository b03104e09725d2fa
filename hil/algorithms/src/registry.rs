//! Both machines of an algorithm by its name: the reaction point, and the notification point that it names.

use anyhow::{Context, Result, bail};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

/// The error for an unknown name. The command line suggests the nearest known one.
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
    fn a_visitor_gets_the_notification_point_that_the_reaction_point_names() {
        assert_eq!(with("dcqcn", Names).unwrap(), ("dcqcn", "dcqcn"));
        let unknown = with("dcqcm", Names).unwrap_err();
        assert_eq!(unknown.to_string(), "unknown algorithm dcqcm");
        assert!(unknown.downcast_ref::<UnknownName>().unwrap().known.starts_with(&["dcqcn"]));
    }
}
