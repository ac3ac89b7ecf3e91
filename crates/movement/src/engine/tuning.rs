//! Every number of the engine that was chosen: sizes, distances and rates, with the measurement that set each.
//!
//! A number is here if a change of it changes speed and nothing else. Facts of the hardware (a line is 64 bytes)
//! and sizes that follow from others are beside the code that uses them.
//!
//! **Where they were measured.** "Zen 4" is the machine of `bench/README.md`: an AMD EPYC (family 25, model 17)
//! under KVM with 2 cores, 32 KiB of first and 1 MiB of second level cache a core and 32 MiB of last level
//! cache; "Zen 4 lowered" is the same machine with `ZELLIGE_ISA=avx2`. Dates are of November 2026, when all of
//! them were set. *Not recorded* means that neither the history nor the documents name a measurement of this
//! number beside others: it was chosen for the reason that is given, if one is.

use super::stream::LINE_BYTES;

// ---- Threads -------------------------------------------------------------------------------------------

/// Threads of one run, at most: a bound on what a caller may request. Not recorded.
pub(super) const MAX_THREADS: usize = 256;

/// Work for which a thread is woken, at least. Waking takes some microseconds of the caller, and some more
/// until the other thread runs. 17 November: a copy of 4 MiB inside the last level cache, 130
/// microseconds, gained a tenth by a second thread; one of 1 MiB lost half.
pub(super) const MIN_THREAD_WORK_NS: usize = 50_000;

/// Bytes that a piece writes, about, where the tiles of the jobs allow it: small enough that no thread waits
/// long for the last one. 18 November, Xeon with 16 cores: pieces of 1 MiB left 16 threads two or three each, and a
/// move took up to twice as long as PyTorch's.
pub(super) const PIECE_BYTES: usize = 1 << 17;

/// Bytes of the pieces that a thread takes together, while there are many. The first tile of a range
/// was prefetched by no other, and tiles of a transpose are up to 128 KiB, so ranges of two of them cost a
/// third of the speed (18 November; the machine is not recorded).
pub(super) const RANGE_BYTES: usize = 1 << 20;

/// Pieces of one run, and calls of a job in all of them, at most: every piece has a part of every job, so that
/// plans of many nests would spend their time on empty parts. Not recorded.
pub(super) const MAX_PIECES: usize = 1 << 14;

/// Pieces for each thread, at least, where that leaves each piece [`MIN_PIECE_BYTES`]: a thread that begins
/// late leaves its share to the others. Not recorded.
pub(super) const MIN_PIECES_PER_THREAD: usize = 4;

/// Bytes of a piece below which there are no more pieces than threads. Not recorded.
pub(super) const MIN_PIECE_BYTES: usize = 1 << 15;

// Times on one core, in picoseconds. All they decide is whether a thread is woken, so they need to hold within a
// factor of two or three on the machines that were measured (17 November; the single values are not recorded).

/// Of a byte that memory reads and writes for one core: about 15 GB/s each way.
pub(super) const MEMORY_PS_PER_BYTE: usize = 65;
/// Of a byte that the caches read and write, where a move is not one row: about half of that.
pub(super) const CACHES_PS_PER_BYTE: usize = 30;
/// Of a row, whatever its length.
pub(super) const ROW_PS: usize = 1500;
/// Of each byte of a row, in addition.
pub(super) const ROW_PS_PER_BYTE: usize = 30;
/// Of a byte of a row of one element, which is written and not read.
pub(super) const SPLAT_PS_PER_BYTE: usize = 20;
/// Of a byte of a reversed row.
pub(super) const REVERSE_PS_PER_BYTE: usize = 60;
/// Of an element of a transpose, whatever its width.
pub(super) const TRANSPOSE_PS_PER_ELEMENT: usize = 100;
/// Of each byte of such an element, in addition.
pub(super) const TRANSPOSE_PS_PER_BYTE: usize = 100;
/// Of a run that is converted, whatever its length.
pub(super) const CONVERT_PS: usize = 2000;
/// Of each element of such a run, in addition.
pub(super) const CONVERT_PS_PER_ELEMENT: usize = 150;
/// Of an element that moves by itself.
pub(super) const ELEMENT_PS: usize = 1000;
/// Of a byte of the kernels that no other rate describes: small tiles, repeats, conversions through a stage.
pub(super) const OTHER_PS_PER_BYTE: usize = 500;

// ---- Non-temporal stores -------------------------------------------------------------------------------

/// Bytes read and written from which stores are non-temporal, where the size of the last level cache is not
/// known or small. 15 November: stores were non-temporal from 4 MiB on before, and dense moves of 4 to 8 MiB
/// lost half of their speed to memory although 32 MiB of cache held them.
pub(super) const MIN_STREAMED_MOVE_BYTES: usize = 8 << 20;

/// Quarters of the last level cache of an AMD processor that a move may fill before its stores are
/// non-temporal: what else runs needs some of it. 15 November, the processor of that day is not recorded.
pub(super) const LAST_LEVEL_QUARTERS: usize = 3;

/// Rows of at least this many bytes have non-temporal stores wherever they begin: of their lines, two are
/// broken. 15 November: a numpy array begins 16 bytes behind a line, and moves into one were half as fast
/// before.
pub(super) const MIN_BROKEN_STREAM_BYTES: usize = 1024;

/// Bytes between rows of a transpose up to which they share pages of memory in which lines are better written
/// in the order of the row; 2 KiB is half a page. 15 November; not recorded.
pub(super) const MAX_SAME_PAGE_STEP_BYTES: usize = 2048;

/// Bytes of a page. Zen 4 writes pieces a multiple of it apart faster in bursts (`streams_by_bursts`), and the
/// prefetcher of the hardware does not see a next row coming that is a page away. 18 November.
pub(super) const PAGE_BYTES: usize = 4096;

// ---- Rows ----------------------------------------------------------------------------------------------

/// Bytes of a chunk of a long run: what threads share. Not recorded.
pub(super) const LINEAR_CHUNK_BYTES: usize = 1 << 16;

/// Elements of a chunk of a long run that is converted: [`LINEAR_CHUNK_BYTES`] of the widest format, twice.
pub(super) const CONVERT_CHUNK_ELEMENTS: usize = LINEAR_CHUNK_BYTES / 16;

/// Bytes of the pattern that fills read: the longest run that one fill writes. It stays in the first level
/// cache. Not recorded.
pub(super) const FILL_PATTERN_BYTES: usize = 4096;

/// Bytes of source that a tile of rows reads in one stretch, at most. 15 November; not recorded.
pub(super) const ROW_TILE_SRC_BYTES: usize = 1 << 16;

/// Bytes of destination that a tile of rows writes in one stretch, at most. 15 November; not recorded.
pub(super) const ROW_TILE_DST_BYTES: usize = 1 << 13;

/// Rows that a tile reads in one stretch, where it writes them in bursts along the destination. 17 November,
/// AVX2, where non-temporal stores reach the speed of memory in bursts of 512 bytes alone.
pub(super) const BURST_SRC_STEPS: isize = 16;

/// Steps below which a loop costs more than what is inside it, where that is a short row. 15 November; not
/// recorded.
pub(super) const MIN_INNER_STEPS: isize = 8;

/// Rows of at least this many bytes, inside the caches, are written in the order of the destination: three
/// lines. 18 November; not recorded.
pub(super) const MIN_DST_ORDER_ROW_BYTES: usize = 192;

/// Runs of fewer bytes that begin at several starts are a table, whose starts are the innermost loop. Not
/// recorded: from a page on, the loop around the run costs nothing.
pub(super) const MIN_UNTABLED_RUN_BYTES: usize = 4096;

/// Bytes ahead of a row that are prefetched, where rows follow one another in the source. Not recorded.
pub(super) const ROW_PREFETCH_BYTES: usize = 512;

/// Rows ahead that are prefetched, where rows do not follow one another. Not recorded.
pub(super) const ROW_PREFETCH_STEPS: isize = 4;

/// Bytes of a row that are prefetched, at most: behind four lines the hardware has seen the row. Not recorded.
pub(super) const MAX_ROW_PREFETCH_BYTES: usize = 256;

/// Bytes ahead that are prefetched while a table is copied line by line. 17 November; not
/// recorded.
pub(super) const TABLE_PREFETCH_BYTES: usize = 512;

/// Bytes ahead that are prefetched while a long run is copied by registers of half a line. Registers of a whole
/// line keep enough loads in flight by themselves. 17 November, Zen 4 lowered; not recorded.
pub(super) const COPY_PREFETCH_BYTES: usize = 512;

/// Runs of at least this many bytes are stored from register to register of the destination: a store that
/// straddles two lines costs twice. 18 November; the value beside others is not recorded.
pub(super) const MIN_ALIGNED_RUN_BYTES: usize = 256;

/// Runs of at least this many bytes that stay in the caches are left to the system's `memcpy`, which knows the
/// processor: in the second and third level caches it is up to a third faster (18 November; the machine
/// is not recorded).
pub(super) const MIN_SYSTEM_COPY_BYTES: usize = 2048;

// ---- Rows of one element, repeated stretches, reversed rows ----------------------------------------------

/// Rows of one element that are shorter than the narrowest register are left to other kernels.
pub(super) const MIN_SPLAT_ROW_BYTES: usize = 16;

/// Rows of one element of at least this many bytes are written from line to line. 15 November; not recorded.
pub(super) const MIN_ALIGNED_SPLAT_BYTES: usize = 256;

/// Bytes of a stretch that is repeated, at most: it is still in the second level cache when it is copied.
/// 15 November, when elements of 16 bytes in 17x26x27x32 went from 0.465 to 0.085 ms.
pub(super) const MAX_REPEAT_BYTES: usize = 1 << 18;

/// A stretch of fewer bytes is made longer before it is copied on, where its copies are adjacent: a copy of it
/// alone would be a call for a line or two. 15 November; not recorded.
pub(super) const MIN_PLAIN_REPEAT_BYTES: usize = 256;

/// Bytes to which a short stretch grows. It stays in the first level cache. 15 November; not recorded.
pub(super) const GROWN_REPEAT_BYTES: usize = 1 << 13;

/// Bytes that a tile of repeats writes: each tile makes the stretch once more, so there should be few of them.
/// 18 November, when threads began to share repeated rows; not recorded.
pub(super) const REPEAT_TILE_BYTES: usize = 1 << 20;

/// Copies of the stretch in a tile, at least, for the same reason.
pub(super) const MIN_COPIES_PER_TILE: usize = 16;

/// Rows of fewer bytes are reversed several at a time, by shuffles: two registers of 16 bytes. 17 November.
pub(super) const MIN_REVERSED_ROW_BYTES: isize = 32;

// ---- Single elements -----------------------------------------------------------------------------------

/// Elements nearer than this in the source share lines, or pages that the hardware fetches ahead. 15 November;
/// not recorded.
pub(super) const MAX_NEAR_STEP_BYTES: usize = 256;

/// Steps of a tile of single elements along the source and the destination, whose lines stay in the first level
/// cache. 15 November.
pub(super) const NEAR_ELEMENT_TILE_STEPS: (isize, isize) = (16, 32);

/// The same for elements of 16 bytes: longer stretches of the source, which the hardware recognizes. 18
/// November; not recorded.
pub(super) const WIDE_ELEMENT_TILE_STEPS: (isize, isize) = (64, 16);

/// Steps of a tile of single elements that share no lines of the source: as many as divide the work among
/// threads, because no order of them is better. Not recorded.
pub(super) const FAR_ELEMENT_TILE_STEPS: (isize, isize) = (64, 4096);

// ---- Transposes ----------------------------------------------------------------------------------------

/// Bytes of a row of the destination that one tile writes, at most. With registers of half a line,
/// non-temporal stores reach the speed of memory from 512 bytes on and half of it with 256 (17 November; measured on
/// Zen 3).
pub(super) const MAX_TILE_ROW_BYTES: usize = 512;

/// Adjacent bytes that a tile writes and reads through registers of a whole line, which need shorter bursts.
/// 15 November, AVX-512: transposes of 4096x4096 float16 went from 0.43 to 0.65 of a copy with the kernel that
/// they belong to; single values are not recorded.
pub(super) const LINE_REGISTER_WRITE_BYTES: usize = 256;
/// As [`LINE_REGISTER_WRITE_BYTES`].
pub(super) const LINE_REGISTER_READ_BYTES: usize = 4096;

/// Adjacent bytes that a tile reads through registers of half a line: reads reach the speed of memory from
/// here on (17 November; measured on Zen 3).
pub(super) const HALF_REGISTER_READ_BYTES: usize = 256;

/// Adjacent bytes that a tile in the caches writes, at most. 15 November; not recorded.
pub(super) const CACHED_TILE_WRITE_BYTES: usize = 256;

/// Adjacent bytes that a tile in the caches reads, at most. 15 November; not recorded.
pub(super) const CACHED_TILE_READ_BYTES: usize = 1 << 12;

/// Bytes of a tile: it and the next one stay in the second level cache. 15 November; not recorded.
pub(super) const TRANSPOSE_TILE_BYTES: usize = 1 << 17;

/// Rows that are a multiple of this many bytes apart conflict: they share a few sets of every cache, also of
/// the second level. 18 November: copying them to one place first took permute (2,1,0) of 512^3 float16
/// from 0.38 to 0.60 of a copy on one thread and from 0.50 to 0.69 on two.
pub(super) const CONFLICT_STRIDE_BYTES: usize = 1 << 16;

/// Conflicting rows that one tile reads, at most, where it does not copy them to one place first, unless it
/// would then write less than a line. 17 November; not recorded.
pub(super) const MAX_CONFLICTING_ROWS: usize = 32;

/// Bytes of a row of the destination from which stores are non-temporal although rows begin elsewhere in a
/// line each, by skewed tiles. 18 November: they took odd transposes from 0.20 and 0.25 of a copy to 0.35
/// and 0.41; shorter rows stay in the caches, where a Xeon with 16 cores was up to three times faster.
pub(super) const MIN_SKEWED_ROW_BYTES: usize = 2048;

/// Bytes of a transpose that leave the second level cache: from here on a tile prefetches the next one, where
/// rows are a page apart and more, so that the hardware does not. 18 November.
pub(super) const MIN_FAR_TRANSPOSE_BYTES: usize = 1 << 20;

/// Bytes between gathered columns: not a power of two, so that they spread over the sets of the caches.
pub(super) const COLUMN_PITCH_BYTES: usize = MAX_TILE_ROW_BYTES + LINE_BYTES;

/// Bytes of a source row that are staged at a time: whole lines, and a good burst for memory. 15 November.
pub(super) const STAGE_ROW_BYTES: usize = 512;

/// Bytes between staged rows: not a power of two either.
pub(super) const STAGE_PITCH_BYTES: usize = STAGE_ROW_BYTES + LINE_BYTES;

/// Rows at least this far apart are staged by registers narrower than a line; nearer ones share no sets. 15
/// November; not recorded.
pub(super) const MIN_STAGED_STEP_BYTES: usize = 1024;

/// Rows ahead that are prefetched while conflicting rows are staged: more than the second level cache keeps in
/// one set, but what it drops is still in the third. 18 November; not recorded.
pub(super) const PHASED_PREFETCH_ROWS: usize = 16;

/// Bytes of the rows of a tile, with what is between them, that the first level cache holds beside the next
/// tile: half of its 32 KiB. 18 November; the kernel was measured on Zen 4, this number alone was not.
pub(super) const MAX_COMPACT_TILE_BYTES: usize = 1 << 14;

/// Sets of a first level cache of 32 KiB and 8 ways.
pub(super) const L1_SETS: usize = 64;

/// Rows that share the sets of the first level cache and are written in the order of the source, at most: as many as
/// a set has ways. 20 November, Zen 5: of rows of 64 bytes 4 KiB and 8 KiB apart, 8 were copied in 0.7 and 12 in 1.5
/// times the time that the order of the destination takes.
pub(super) const MAX_CROWDED_CACHED_ROWS: isize = 8;

/// Ways of each set that the lines of a tile may take: the other half is for the next tile. 18 November.
pub(super) const L1_TILE_WAYS: usize = 4;

// ---- Small tiles ---------------------------------------------------------------------------------------

/// Nests of fewer bytes are not worth a plan of their own. 17 November; not recorded.
pub(super) const MIN_SMALL_NEST_BYTES: usize = 4096;

/// Bytes of a row that squares write, at most. As [`MAX_TILE_ROW_BYTES`].
pub(super) const MAX_SQUARE_ROW_BYTES: usize = 512;

/// Adjacent bytes that squares read, at most. As [`HALF_REGISTER_READ_BYTES`].
pub(super) const MAX_SQUARE_READ_BYTES: usize = 256;

/// Adjacent bytes that squares read, at least: of elements of 1 and 2 bytes, and of those of 4 and 8. 17
/// November; not recorded.
pub(super) const MIN_SQUARE_READ_BYTES: [usize; 2] = [16, LINE_BYTES];

/// Bytes of a row from which one loop on either side is enough, and a transpose its kernel. 17 November; not
/// recorded.
pub(super) const MIN_TRANSPOSE_ROW_BYTES: usize = 128;

/// Bytes of a row that is gathered, at most: a row and its stage stay in the first level cache. 17 November;
/// not recorded.
pub(super) const MAX_GATHER_ROW_BYTES: usize = 4096;

/// Bytes of a row that is gathered, at least, where several rows share lines of the source. 17 November; not
/// recorded.
pub(super) const MIN_GATHER_ROW_BYTES: usize = 256;

/// Bytes of a tile of gathered rows. 17 November; not recorded.
pub(super) const GATHER_TILE_BYTES: usize = 12288;

/// What it costs to begin a run of registers, in registers. 17 November, when the loop of a gather was first
/// chosen by its cost; not recorded.
pub(super) const GATHER_RUN_COST_REGISTERS: usize = 6;

/// Windows of half a register, at most: with more of them single elements are as fast. 17 November.
pub(super) const MAX_GATHER_WINDOWS: usize = 8;

/// Registers of a stretch that is gathered, at most: their masks and offsets stay in the first level cache. Not
/// recorded.
pub(super) const MAX_GATHER_REGISTERS: usize = 16;

/// Elements of this many bytes move as well by themselves as by a gather. 17 November; not recorded.
pub(super) const MIN_UNGATHERED_ELEMENT_BYTES: usize = 16;

/// The same for runs that are no register of any width: from here on two words that overlap move them. 18
/// November: runs of up to 15 bytes are gathered since, and rows of im2col went from 0.29 to 0.37 of a copy.
pub(super) const MIN_UNGATHERED_RUN_BYTES: usize = 16;

/// Rows that are further apart than this in the source may share the sets of the caches: the span of the sets of
/// a first level cache of 64 sets. 17 November.
pub(super) const MIN_CONFLICT_STEP_BYTES: usize = 4096;

/// Rows that may conflict and are read in place, at most: half of the ways of the first level cache. 18
/// November, when staging was limited to rows that share sets; not recorded.
pub(super) const MAX_UNSTAGED_FAR_ROWS: isize = 4;

/// Stretches of the source that are prefetched before a tile, at most. Not recorded.
pub(super) const MAX_PREFETCH_STRETCHES: usize = 64;

/// Rows from which non-temporal stores pay in small tiles although the first and last lines are broken: three
/// lines. 17 November; not recorded.
pub(super) const MIN_STREAMED_SMALL_ROW_BYTES: usize = 192;

/// Bytes between staged rows of squares beyond their own, so that columns spread over the sets of the caches.
pub(super) const SQUARE_STAGE_GAP_BYTES: usize = LINE_BYTES;

/// Bytes of staged rows of squares: a tile of them in the second level cache. 17 November; not recorded.
pub(super) const SQUARE_STAGE_BYTES: usize = 160 << 10;

// ---- Conversions ---------------------------------------------------------------------------------------

/// Runs of at least this many elements are converted where they are; shorter ones go through a stage. 15
/// November; not recorded.
pub(super) const MIN_CONVERT_RUN_ELEMENTS: usize = 16;

/// Elements of the longer and of the shorter side of a tile that is converted and transposed, at most: the stage
/// of the longest tile stays in the second level cache. 15 November; not recorded.
pub(super) const MAX_STAGED_LONG_SIDE_ELEMENTS: isize = 256;
/// As [`MAX_STAGED_LONG_SIDE_ELEMENTS`].
pub(super) const MAX_STAGED_SHORT_SIDE_ELEMENTS: isize = 128;

/// Elements of a tile that is gathered, converted and scattered, at most: two stages of 8-byte elements are 32
/// KiB. 15 November; not recorded.
pub(super) const MAX_SCATTERED_ELEMENTS: isize = 2048;

/// Adjacent elements from which a stretch of such a tile is converted where it is. 15 November; not recorded.
pub(super) const MIN_IN_PLACE_ELEMENTS: isize = 32;

/// Rows that are prefetched before they are converted. 15 November; not recorded.
pub(super) const STAGED_PREFETCH_ROWS: usize = 12;

/// Bytes between rows of the stage beyond their own: columns spread over the sets of the caches.
pub(super) const STAGE_ROW_GAP_BYTES: usize = LINE_BYTES;

/// Bytes of the stage: the longest tile of either kind.
pub(super) const CONVERT_STAGE_BYTES: usize = 96 << 10;
