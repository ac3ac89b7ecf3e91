//! What every thread does, one step after the other: the same for all, but for tables by lane.

/// The lanes of a warp for which something holds, one bit each.
pub type LaneMask = u32;

/// A part of a word: of 32 bits, the elements from the lowest bits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WordPart {
    /// The word, by the number of the value that it is.
    pub word: usize,
    /// Which of its elements.
    pub part: usize,
}

/// A step. Values are words of 32 bits, numbered in the order in which they are made; the first ones are the words of
/// the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversionStep {
    /// Makes a word of parts of others (`prmt`); a part that no register needs is none.
    Pack {
        /// One for each element of a word.
        parts: Vec<Option<WordPart>>,
    },
    /// Makes the word that the first mask with the thread's lane names; of a lane in none, the last word.
    Select {
        /// The words, each with the lanes that take it. The lanes of the last are not looked at.
        options: Vec<(LaneMask, usize)>,
    },
    /// Makes a word of another lane (`shfl.sync.idx`).
    Shuffle {
        /// The word that each lane offers.
        word: usize,
        /// The lane that each lane reads.
        lanes: [u8; 32],
    },
}
