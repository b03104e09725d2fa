//! A set of frame numbers, as one bit for each frame up to the highest in the set.

/// A set of frame numbers, which count from 1.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    /// Adds a frame.
    pub fn insert(&mut self, frame: u64) {
        let (word, bit) = place(frame);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            self.count += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Whether the set has this frame.
    #[inline]
    pub fn has(&self, frame: u64) -> bool {
        let (word, bit) = place(frame);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Frames in the set.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[inline]
fn place(frame: u64) -> (usize, u64) {
    ((frame / 64) as usize, 1 << (frame % 64))
}
