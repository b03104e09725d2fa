//! Sorted lists as maps and sets: for tables of up to some thousand entries, of which there are many types.
//!
//! Each pair of types for which a `BTreeMap` is built and read gives the compiler 5,000 to 10,000 lines of LLVM IR, and 900 more
//! in each crate that drops one; a sorted list gives it less than a sixth. An insertion behind the last key takes constant time on
//! average; another one, and a removal, moves all entries behind it. So it takes quadratic time to collect many unsorted entries.
#![forbid(unsafe_code)]

use serde::{Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt::{self, Debug};
use std::mem;
use std::ops::Index;
use std::slice;
use std::vec;

/// A map, in the order of its keys.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

/// A set, in order.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedSet<K>(Vec<K>);

impl<K, V> SortedMap<K, V> {
    /// An empty one.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The keys.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// The entries, whose values can be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> + ExactSizeIterator {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// As [`SortedMap::values`], to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|place| &self.0[place].1)
    }

    /// As [`SortedMap::get`], to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|place| &mut self.0[place].1)
    }

    /// Whether a key has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// The entry with the greatest key that is not above this one.
    pub fn at_or_below(&self, key: &K) -> Option<(&K, &V)> {
        let above = self.0.partition_point(|(other, _)| other <= key);
        self.0[..above].last().map(|(key, value)| (key, value))
    }

    /// Gives a key a value. Returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(place) => Some(mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    /// Removes a key. Returns the value that it had.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|place| self.0.remove(place).1)
    }

    /// The value of a key, which is what `make` returns if it had none.
    pub fn or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let place = self.find(&key).unwrap_or_else(|place| {
            self.0.insert(place, (key, make()));
            place
        });
        &mut self.0[place].1
    }

    /// The value of a key, which is `value` if it had none.
    pub fn or_insert(&mut self, key: K, value: V) -> &mut V {
        self.or_insert_with(key, || value)
    }

    /// The value of a key, which is the default if it had none.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.or_insert_with(key, V::default)
    }
}

impl<K> SortedSet<K> {
    /// An empty one.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many elements there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The elements.
    pub fn iter(&self) -> slice::Iter<'_, K> {
        self.0.iter()
    }

    /// The least one.
    pub fn first(&self) -> Option<&K> {
        self.0.first()
    }

    /// The greatest one.
    pub fn last(&self) -> Option<&K> {
        self.0.last()
    }

    /// Keeps the elements for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&K) -> bool) {
        self.0.retain(keep);
    }
}

impl<K: Ord> SortedSet<K> {
    /// Whether it has an element.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|other| other.borrow().cmp(key)).is_ok()
    }

    /// Adds an element. Returns whether it was not there.
    pub fn insert(&mut self, key: K) -> bool {
        let place = self.0.binary_search(&key);
        if let Err(place) = place {
            self.0.insert(place, key);
        }
        place.is_err()
    }

    /// Removes an element. Returns whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let place = self.0.binary_search_by(|other| other.borrow().cmp(key));
        place.map(|place| self.0.remove(place)).is_ok()
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Debug, V: Debug> Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Debug> Debug for SortedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.0).finish()
    }
}

impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    /// # Panics
    /// The key has no value.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry of this key")
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord> Extend<K> for SortedSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord> FromIterator<K> for SortedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SortedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Ord, const N: usize> From<[K; N]> for SortedSet<K> {
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<K> IntoIterator for SortedSet<K> {
    type Item = K;
    type IntoIter = vec::IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K> IntoIterator for &'a SortedSet<K> {
    type Item = &'a K;
    type IntoIter = slice::Iter<'a, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<K: Serialize, V: Serialize> Serialize for SortedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<K: Serialize> Serialize for SortedSet<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn a_map_has_what_a_tree_has(steps in prop::collection::vec((0..5, 0u8..20, 0u16..9), 0..100)) {
            let (mut map, mut tree) = (SortedMap::new(), BTreeMap::new());
            for (step, key, value) in steps {
                match step {
                    0 => prop_assert_eq!(map.insert(key, value), tree.insert(key, value)),
                    1 => prop_assert_eq!(map.remove(&key), tree.remove(&key)),
                    2 => *map.or_default(key) += value,
                    3 => *map.or_insert(key, 7) += value,
                    _ => map.retain(|&other, kept| other != key || *kept == value),
                }
                match step {
                    2 => *tree.entry(key).or_default() += value,
                    3 => *tree.entry(key).or_insert(7) += value,
                    4 => tree.retain(|&other, kept| other != key || *kept == value),
                    _ => {}
                }
                prop_assert_eq!(map.get(&key), tree.get(&key));
                prop_assert_eq!(map.at_or_below(&key), tree.range(..=key).next_back());
                prop_assert_eq!((map.len(), map.iter().next()), (tree.len(), tree.iter().next()));
                prop_assert!(map.iter().eq(&tree) && map.keys().eq(tree.keys()) && map.values().eq(tree.values()));
            }
            prop_assert_eq!(serde_json::to_string(&map).unwrap(), serde_json::to_string(&tree).unwrap());
            prop_assert_eq!(format!("{map:?}"), format!("{tree:?}"));
        }

        #[test]
        fn a_set_has_what_a_tree_has(steps in prop::collection::vec((any::<bool>(), 0u8..20), 0..100)) {
            let (mut set, mut tree) = (SortedSet::new(), BTreeSet::new());
            for &(adds, key) in &steps {
                if adds {
                    prop_assert_eq!(set.insert(key), tree.insert(key));
                } else {
                    prop_assert_eq!(set.remove(&key), tree.remove(&key));
                }
                prop_assert_eq!(set.contains(&key), tree.contains(&key));
                prop_assert_eq!((set.len(), set.first(), set.last()), (tree.len(), tree.first(), tree.last()));
                prop_assert!(set.iter().eq(&tree));
            }
            let keys = steps.iter().map(|&(_, key)| key);
            prop_assert!(keys.clone().collect::<SortedSet<_>>().iter().eq(&keys.collect::<BTreeSet<_>>()));
        }
    }
}
