//! The flows of a host that may send.

/// A set of small numbers, in which the next member after a number is found 64 at a time.
#[derive(Clone, Default, Debug)]
pub(super) struct ReadySet {
    words: Vec<u64>,
    members: usize,
}

impl ReadySet {
    /// Adds a number.
    pub(super) fn insert(&mut self, number: usize) {
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        let word = &mut self.words[number / 64];
        self.members += usize::from(*word & 1 << (number % 64) == 0);
        *word |= 1 << (number % 64);
    }

    /// Removes a number, if it is a member.
    pub(super) fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            self.members -= usize::from(*word & 1 << (number % 64) != 0);
            *word &= !(1 << (number % 64));
        }
    }

    /// Whether it has no member.
    pub(super) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// The least member from `first` on, or else the least of all.
    pub(super) fn next_from(&self, first: usize) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let masked = |word: usize| {
            let bits = self.words.get(word).copied().unwrap_or(0);
            if word == first / 64 { bits & u64::MAX << (first % 64) } else { bits }
        };
        let after = (first / 64..self.words.len()).map(|word| (word, masked(word)));
        let before = (0..self.words.len()).map(|word| (word, self.words[word]));
        let (word, bits) = after.chain(before).find(|&(_, bits)| bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_follow_each_other_in_a_circle() {
        let mut set = ReadySet::default();
        assert_eq!(set.next_from(0), None);
        for number in [3, 64, 127, 500] {
            set.insert(number);
            set.insert(number);
        }
        for (from, next) in [(0, 3), (3, 3), (4, 64), (64, 64), (65, 127), (128, 500), (500, 500), (501, 3), (9_999, 3)]
        {
            assert_eq!(set.next_from(from), Some(next), "{from}");
        }
        set.remove(3);
        set.remove(3);
        set.remove(7_000);
        assert_eq!(set.next_from(501), Some(64));
        for number in [64, 127, 500] {
            set.remove(number);
        }
        assert!(set.is_empty());
        assert_eq!(set.next_from(1), None);
    }
}
