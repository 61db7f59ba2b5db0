//! What the chooser knows of a column: each fact is found when first asked for.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::distinct::{Distinct, ODD, same_string};
use super::frequent::Frequent;
use super::sorted::shared_share;
use crate::encodings::alp::{Decimals, decimals};
use crate::encodings::{Encoding, bitpack::plan, fsst::Fsst, phrases::Phrases, serial::SerialLanes};
use crate::fsst::SymbolTable;
use crate::phrases::{Coverage, Parsed, PhraseText};
use crate::values::{Column, LaneAccess, Lanes, Values};
use crate::{BLOCK_ROWS, Fixed, PackedLane, VECTOR_ROWS, simd, with_lanes, with_packed_lane_of};

/// Most vectors in a sample.
const SAMPLE_VECTORS: usize = 4;
/// Bytes of strings on which a symbol table is tried.
const SAMPLE_BYTES: usize = 64 << 10;
/// In fewer bytes of strings a symbol table outweighs what it saves, and what it costs to make.
pub(crate) const SYMBOLS_MIN_BYTES: usize = 2048;

/// Fewer lanes aren't looked at as text.
const SERIAL_MIN_ROWS: usize = 4 * VECTOR_ROWS;
/// Values that take no more bits could hardly become shorter as text: a code stands for eight bytes at most.
const SERIAL_LEAST_BITS: f64 = 1.2;
/// Values in a row that are looked for elsewhere, about, one such sequence in 2^5, if that makes enough of them.
const SEQUENCE_ROWS: usize = 6;
const SEQUENCES_SHIFT: u32 = 5;
const SEQUENCES_MIN: usize = 64;
const SEQUENCES_MOST_ROWS: usize = 2 * BLOCK_ROWS;
/// Words in which phrases are looked for, and by how much their entropy is below what it can be where hardly any comes again.
const WORD_BYTES: usize = 8;
const LITTLE_RECURS_BITS: f64 = 0.25;
/// So many times half a pair's entropy are the bits of a value as symbols, or the gain is small; and as phrases.
const SYMBOLS_OVER_PAIRS: f64 = 1.3;
const PHRASES_OVER_PAIRS: f64 = 1.1;
/// The share of the bits that values, or pairs of neighbours, could have, below which they recur enough to look for more.
pub(super) const RECURRING: f64 = 0.7;
/// From as many rows per distinct value on, strings aren't looked at for anything but a dictionary.
const REPETITIVE: usize = 8;
/// Codes have to be so many bits narrower than the values of a dictionary.
pub(crate) const HARDLY_NARROWER_BITS: f64 = 0.5;
/// Symbols leave no less of a text, about.
pub(crate) const LEAST_SYMBOL_RATIO: f64 = 0.25;
/// Fewer bytes, or strings shorter on average, don't pay for a text of phrases.
const PHRASE_MIN_BYTES: usize = 16 << 10;
const PHRASE_MIN_AVERAGE: usize = 16;
/// How much more strings may take by what was learned of others.
const NEARLY_AS_WELL: f64 = 1.03;
/// What symbols leave of a text, about.
const SYMBOL_RATIO: f64 = 0.5;
/// How much harder symbols make it to shorten what phrases left than the strings as they were, about.
const LITERAL_HARDNESS: f64 = 1.3;

/// What a phrase takes, about and rather less, and the number of a string's phrases.
const PHRASE_BYTES: f64 = 1.5;
/// How much more than the best phrases may promise before it is known how many are different, and still be the best.
const PHRASE_HOPE: f64 = 1.06;
const COUNT_BYTES: f64 = 1.0;

/// Facts about a column without nulls.
pub(crate) struct Statistics<'a> {
    pub column: &'a Column<'a>,
    pub rows: usize,
    lanes: Option<LaneStatistics<'a>>,
    strings: Option<StringStatistics<'a>>,
    run_count: OnceCell<Option<usize>>,
    distinct: OnceCell<Option<Distinct>>,
    /// So many distinct values there are at least, as far as that is known.
    least_distinct: Cell<usize>,
    frequent: OnceCell<Option<Frequent>>,
    laid_out: OnceCell<Option<LaidOut>>,
}

/// A column as an encoding lays it out whose size nothing but doing so tells; the children aside.
#[derive(Clone)]
pub(crate) struct LaidOut {
    pub parameters: Vec<u8>,
    pub buffers: Vec<Vec<u8>>,
}

impl LaidOut {
    /// About as many as the node takes.
    pub fn size_bytes(&self) -> f64 {
        let buffers_bytes: usize = self.buffers.iter().map(Vec::len).sum();
        (self.parameters.len() + buffers_bytes) as f64 + 12.0
    }
}

impl<'a> Statistics<'a> {
    pub fn new(column: &'a Column<'a>) -> Self {
        let (lanes, strings) = match &column.values {
            Values::Fixed(fixed, lanes) => (
                Some(LaneStatistics {
                    fixed: *fixed,
                    lanes,
                    packed_bytes: OnceCell::new(),
                    decimals: OnceCell::new(),
                    serial: OnceCell::new(),
                    heard: OnceCell::new(),
                }),
                None,
            ),
            Values::Bytes(strings) => (None, Some(StringStatistics::new(strings))),
            _ => (None, None),
        };
        Self {
            column,
            rows: column.rows,
            lanes,
            strings,
            run_count: OnceCell::new(),
            distinct: OnceCell::new(),
            least_distinct: Cell::new(0),
            frequent: OnceCell::new(),
            laid_out: OnceCell::new(),
        }
    }

    /// As [`Self::new`], for values of which it is known that a dictionary doesn't pay.
    pub fn without_distinct(column: &'a Column<'a>) -> Self {
        Self { distinct: OnceCell::from(None), ..Self::new(column) }
    }

    pub fn lanes(&self) -> Option<&LaneStatistics<'a>> {
        self.lanes.as_ref()
    }

    pub fn strings(&self) -> Option<&StringStatistics<'a>> {
        self.strings.as_ref()
    }

    /// Number of runs, for lanes, booleans and byte strings.
    pub fn run_count(&self) -> Option<usize> {
        *self.run_count.get_or_init(|| match &self.column.values {
            Values::Fixed(_, lanes) => Some(with_lanes!(lanes, lanes => simd::count_runs(lanes))),
            Values::Bool(bits) => {
                let changes = |row: usize| {
                    let after = bits.word(row + 1);
                    let pairs = (self.rows - 1 - row).min(64);
                    let differ = (bits.word(row) ^ after) & (u64::MAX >> (64 - pairs.max(1)));
                    if pairs == 0 { 0 } else { differ.count_ones() as usize }
                };
                Some((0..self.rows).step_by(64).map(changes).sum::<usize>() + self.rows.min(1))
            }
            Values::Bytes(strings) => Some(match self.distinct.get() {
                Some(Some(distinct)) => simd::count_runs(&distinct.codes),
                _ => count_runs(strings),
            }),
            _ => None,
        })
    }

    /// Runs per row, of strings in a sample alone.
    pub fn runs_per_row(&self) -> f64 {
        let (runs, rows) = match &self.column.values {
            Values::Bytes(strings) => {
                let sample = sample_vectors(strings);
                let rows = sample.iter().map(|vector| vector.len()).sum();
                (sample.into_iter().map(count_runs).sum(), rows)
            }
            _ => (self.run_count().unwrap_or(0), self.rows),
        };
        runs as f64 / rows.max(1) as f64
    }

    /// The column as `lay_out` lays it out, which is asked once: of encodings that need this, each type of values has one.
    #[cfg(any(feature = "pco", feature = "zstd"))]
    pub fn laid_out(&self, lay_out: impl FnOnce(&Self) -> Option<LaidOut>) -> Option<&LaidOut> {
        self.laid_out.get_or_init(|| lay_out(self)).as_ref()
    }

    /// True if all values are equal and there is one.
    pub fn is_constant(&self) -> bool {
        match &self.column.values {
            Values::Bytes(strings) => {
                !strings.is_empty() && strings.windows(2).all(|pair| same_string(pair[0], pair[1]))
            }
            _ => self.run_count() == Some(1),
        }
    }

    /// Number of distinct values; `None` if they are too many for a dictionary.
    pub fn distinct(&self) -> Option<usize> {
        self.distinct_values().map(|distinct| distinct.first_rows.len())
    }

    /// As [`Self::distinct`], if that was asked before.
    pub fn known_distinct(&self) -> Option<usize> {
        self.distinct.get()?.as_ref().map(|distinct| distinct.first_rows.len())
    }

    /// So many distinct values there are at least: what was found of them, or what they were too many for.
    pub fn least_distinct(&self) -> usize {
        self.known_distinct().unwrap_or(self.least_distinct.get())
    }

    /// Tells that there are at least so many distinct values.
    pub fn expect_distinct(&self, least: usize) {
        self.least_distinct.set(least);
    }

    /// True if values recur so often that phrases are best looked for among the distinct ones.
    pub fn recurs(&self) -> bool {
        self.distinct().is_some_and(|distinct| distinct * 2 < self.rows)
    }

    /// The value that most rows have, if it has a good share of them.
    pub fn frequent(&self) -> Option<&Frequent> {
        self.frequent.get_or_init(|| Frequent::of(self, self.distinct.get().and_then(Option::as_ref))).as_ref()
    }

    /// True if values recur so often that nothing but a dictionary pays.
    pub fn is_repetitive(&self) -> bool {
        self.distinct().is_some_and(|distinct| {
            let as_strings = self.strings().is_some_and(|strings| strings.are_repetitive(distinct));
            as_strings || distinct * REPETITIVE < self.rows
        })
    }

    /// Bytes that a value takes by itself, about.
    pub fn most_value_bytes(&self) -> f64 {
        match (&self.lanes, &self.strings) {
            (Some(lanes), _) => lanes.value_bits() / 8.0,
            (_, Some(strings)) => strings.total_bytes as f64 / self.rows.max(1) as f64 + 1.0,
            _ => 0.0,
        }
    }

    /// What was learned here, of strings or of lanes as text, for values that may be like these.
    pub(super) fn lessons(&self) -> Lessons {
        let of_text = |lanes: &LaneStatistics<'_>| Some(lanes.serial.get()?.as_ref()?.lessons.clone());
        match &self.strings {
            Some(strings) => strings.lessons(),
            None => self.lanes.as_ref().and_then(of_text).unwrap_or_default(),
        }
    }

    /// Tells what was learned of other values: see [`StringStatistics::hear`].
    pub(super) fn hear(&self, lessons: &Lessons) {
        if let Some(strings) = &self.strings {
            strings.hear(lessons);
        }
        if let Some(lanes) = &self.lanes {
            let _ = lanes.heard.set(lessons.clone());
        }
    }

    /// The distinct values; `None` if they are too many for a dictionary.
    pub fn distinct_values(&self) -> Option<&Distinct> {
        self.distinct_at_most(most_distinct(self.rows))
    }

    /// True if the distinct values are known to be at most so many.
    pub fn has_distinct_at_most(&self, most: usize) -> bool {
        self.distinct_at_most(most).is_some_and(|distinct| distinct.first_rows.len() <= most)
    }

    /// The distinct values; `None` if they are more than whoever asked first wanted at most.
    fn distinct_at_most(&self, most: usize) -> Option<&Distinct> {
        let find = || {
            // Codes no narrower than the values are never pay.
            let narrower = self
                .lanes()
                .map_or(BLOCK_ROWS, |lanes| 1 << (lanes.value_bits() - HARDLY_NARROWER_BITS).clamp(0.0, 16.0) as u32);
            let limit = most.min(narrower);
            if self.least_distinct.get() > limit {
                return None;
            }
            let found = Distinct::unless_more(self.column, limit);
            if found.is_none() {
                self.least_distinct.set(limit + 1);
            }
            found
        };
        self.distinct.get_or_init(find).as_ref()
    }
}

/// More distinct values aren't worth a dictionary.
pub(crate) fn most_distinct(rows: usize) -> usize {
    (rows * 3 / 4).clamp(64, BLOCK_ROWS)
}

/// Facts about lanes.
pub(crate) struct LaneStatistics<'a> {
    pub fixed: Fixed,
    lanes: &'a Lanes<'a>,
    packed_bytes: OnceCell<Option<f64>>,
    decimals: OnceCell<Option<Decimals>>,
    serial: OnceCell<Option<AsText>>,
    /// What was learned of the text of lanes that may be like these.
    heard: OnceCell<Lessons>,
}

/// Lanes as text, a string for each vector.
pub(crate) struct AsText {
    /// Bytes that they take, about.
    pub bytes: f64,
    /// Id of the text's encoding.
    pub encoding: u8,
    /// What was learned of the text.
    pub(super) lessons: Lessons,
}

impl<'a> LaneStatistics<'a> {
    /// All of them.
    pub fn all(&self) -> &Lanes<'a> {
        self.lanes
    }

    /// A few whole vectors, spread over the column.
    pub fn sample<T: LaneAccess>(&self) -> Vec<&'a [T]> {
        T::lent(self.lanes).map(sample_vectors).unwrap_or_default()
    }

    /// By how much the column is larger than its sample.
    pub fn scale(&self) -> f64 {
        let rows = self.lanes.len();
        let sampled: usize = sample_starts(rows).map(|start| (rows - start).min(VECTOR_ROWS)).sum();
        rows as f64 / sampled.max(1) as f64
    }

    /// Bytes that the lanes take packed, about; `None` where they are too wide for that.
    pub fn packed_bytes(&self) -> Option<f64> {
        *self.packed_bytes.get_or_init(|| {
            with_packed_lane_of!(self.fixed, T => {
                let vectors = self.sample::<T>();
                let bytes: f64 = vectors.iter().map(|vector| plan(vector, self.fixed.is_signed()).size_bytes()).sum();
                Some(bytes * self.scale())
            }, None)
        })
    }

    /// Bits that a value takes on its own, about: packed if that helps.
    pub fn value_bits(&self) -> f64 {
        let width = (self.fixed.size_bytes() * 8) as f64;
        let rows = self.lanes.len().max(1) as f64;
        self.packed_bytes().map_or(width.min(72.0), |bytes| (bytes * 8.0 / rows).min(width))
    }

    /// The sample as decimals; `None` where that saves nothing, or they aren't floats.
    pub fn decimals(&self) -> Option<Decimals> {
        *self.decimals.get_or_init(|| decimals(self.fixed, self.lanes))
    }

    /// The lanes as text; `None` where that is hopeless, or can't be less than `best_bytes`.
    pub fn serial(&self, best_bytes: f64) -> Option<&AsText> {
        let find = || {
            let rows = self.lanes.len();
            let least_bytes = rows as f64 * SERIAL_LEAST_BITS / 8.0;
            let may_pay = rows >= SERIAL_MIN_ROWS && !self.fixed.is_float() && best_bytes >= least_bytes;
            if !may_pay || !SerialLanes::holds(self.fixed, self.lanes) {
                return None;
            }
            let pair_bits = with_packed_lane_of!(self.fixed, T => self.pair_bits::<T>(), f64::MAX);
            let may_win = |over_pairs: f64| pair_bits / 2.0 * over_pairs * rows as f64 / 8.0 < best_bytes;
            let sequences = match may_win(PHRASES_OVER_PAIRS) {
                true => {
                    with_packed_lane_of!(self.fixed, T => sequences::<T>(LaneAccess::lent(self.lanes)?, pair_bits), Sequences::Differ)
                }
                false => Sequences::Differ,
            };
            // Pairs tell little of values that follow a fixed pattern.
            let as_symbols_may_win = pair_bits < RECURRING * self.most_pair_bits()
                && (may_win(SYMBOLS_OVER_PAIRS) || sequences == Sequences::Few);
            let as_phrases_may_win = sequences != Sequences::Differ;
            if !as_symbols_may_win && !as_phrases_may_win {
                return None;
            }
            let serial = SerialLanes::of(self.fixed, self.lanes)?;
            let strings = serial.strings();
            let text = StringStatistics::new(&strings);
            if let Some(heard) = self.heard.get() {
                text.hear(heard);
            }
            let as_symbols_may_win = as_symbols_may_win && text.learns_symbols_of(best_bytes);
            // Symbols that phrases alone need are learned when those give hope.
            let most_bytes = if as_symbols_may_win { text.symbol_bytes().min(best_bytes) } else { best_bytes };
            let as_phrases = if as_phrases_may_win { text.phrase_bytes(most_bytes) } else { None };
            if as_phrases.is_none() && !as_symbols_may_win {
                return None;
            }
            let as_symbols = text.symbol_bytes();
            let (bytes, encoding) = match as_phrases {
                Some(bytes) if bytes < as_symbols => (bytes, Phrases.id()),
                _ => (as_symbols, Fsst.id()),
            };
            Some(AsText { bytes: bytes + 40.0 + 4.0 * strings.len() as f64, encoding, lessons: text.lessons() })
        };
        self.serial.get_or_init(find).as_ref()
    }

    /// The entropy in bits of pairs of neighbours, in a few vectors. Far below what two values can have, values and what follows them
    /// recur.
    fn pair_bits<T: PackedLane + LaneAccess>(&self) -> f64 {
        let pair = |pair: &[T]| pair[0].low_bits().wrapping_mul(ODD) ^ pair[1].low_bits();
        let pairs: Vec<u64> =
            self.sample::<T>().iter().step_by(2).flat_map(|vector| vector.windows(2)).map(pair).collect();
        entropy_bits(&pairs)
    }

    /// The most that [`Self::pair_bits`] can be: what two packed values take, or what the sample has of pairs.
    fn most_pair_bits(&self) -> f64 {
        let pairs = sample_starts(self.lanes.len()).step_by(2).count() * (VECTOR_ROWS - 1);
        (pairs.max(1) as f64).log2().min(2.0 * self.value_bits())
    }
}

/// How many different sequences of values there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequences {
    Differ,
    /// Some are met again, anywhere.
    Recur,
    /// There are no more than a pattern has.
    Few,
}

/// Looks at few sequences, chosen by what they hold: one that comes again is chosen again, and of only a few hardly any is chosen at all.
/// With so many bits in a pair of neighbours, some come again by chance alone: that is no recurrence.
fn sequences<T: LaneAccess>(lanes: &[T], pair_bits: f64) -> Sequences {
    let lanes = &lanes[..lanes.len().min(SEQUENCES_MOST_ROWS)];
    let mut chosen: Vec<u64> = Vec::with_capacity(lanes.len() >> (SEQUENCES_SHIFT - 1));
    simd::choose_sequences(lanes, SEQUENCES_SHIFT, &mut chosen);
    let (count, expected) = (chosen.len(), lanes.len().saturating_sub(simd::SEQUENCE_VALUES) >> SEQUENCES_SHIFT);
    let by_chance = pair_bits / 2.0 * SEQUENCE_ROWS as f64;
    let recur = |words: &[u64], by_chance: f64| {
        words.len() >= SEQUENCES_MIN && entropy_bits(words) < RECURRING * (words.len() as f64).log2().min(by_chance)
    };
    if expected >= SEQUENCES_MIN && (count < expected / 2 || count > expected * 2) {
        // Few sequences, of which most are chosen or hardly any is; or one value that is far more frequent than others.
        let starts = (0..lanes.len() - SEQUENCE_ROWS).step_by(1 << SEQUENCES_SHIFT);
        let word = |start: usize| lanes[start..start + SEQUENCE_ROWS].iter().fold(0u64, word_with);
        let spread_out: Vec<u64> = starts.map(word).collect();
        return if recur(&spread_out, by_chance) { Sequences::Few } else { Sequences::Differ };
    }
    if recur(&chosen, by_chance - f64::from(SEQUENCES_SHIFT)) { Sequences::Recur } else { Sequences::Differ }
}

/// A word of values of which another one is the last.
fn word_with<T: LaneAccess>(word: u64, value: &T) -> u64 {
    (word.rotate_left(u64::BITS / SEQUENCE_ROWS as u32) ^ value.low_bits()).wrapping_mul(ODD)
}

/// True if words of eight bytes are met again in strings of so many bytes. Looks at few, chosen as in [`sequences`].
fn words_recur(strings: &[&[u8]], total_bytes: usize) -> bool {
    let step = (total_bytes / (2 * SAMPLE_BYTES)).max(1);
    let words = strings.iter().step_by(step).flat_map(|string| string.windows(WORD_BYTES));
    let words = words.map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    let chosen: Vec<u64> = words.filter(|word| word.wrapping_mul(ODD).leading_zeros() >= SEQUENCES_SHIFT).collect();
    let count = chosen.len();
    count < SEQUENCES_MIN || entropy_bits(&chosen) + LITTLE_RECURS_BITS < (count as f64).log2()
}

/// Entropy per word of these words.
pub(super) fn entropy_bits(words: &[u64]) -> f64 {
    let count = words.len().max(1) as f64;
    let mut repeated = 0.0;
    count_words(words, |times| repeated += more_bits(times));
    count.log2() - repeated / count
}

/// What a word that comes so often adds to the sum of all n log₂ n, beyond what it adds when it comes once less.
fn more_bits(times: u32) -> f64 {
    /// As many as there are words at most, nearly always.
    const KEPT: usize = 4096;
    static MORE: LazyLock<[f64; KEPT]> = LazyLock::new(|| std::array::from_fn(|times| computed(times as u32)));
    fn computed(times: u32) -> f64 {
        let of = |times: f64| if times > 1.0 { times * times.log2() } else { 0.0 };
        of(times.into()) - of(f64::from(times) - 1.0)
    }
    MORE.get(times as usize).copied().unwrap_or_else(|| computed(times))
}

/// How often each of these words comes, in no order.
pub(super) fn frequencies(words: &[u64]) -> impl Iterator<Item = u32> {
    count_words(words, |_| ()).into_iter().map(|slot| slot.1).filter(|&times| times > 0)
}

/// Counts words by half of a hash, for of so few hardly two have the same: a table of halves and how often each comes, at most half of it
/// used. Calls `visit` with how often each was met so far, itself included.
fn count_words(words: &[u64], mut visit: impl FnMut(u32)) -> Vec<(u32, u32)> {
    let mut slots = vec![(0u32, 0u32); (2 * words.len()).next_power_of_two()];
    let mask = slots.len() - 1;
    for &word in words {
        let half = (word.wrapping_mul(ODD) >> u32::BITS) as u32;
        let mut slot = half as usize & mask;
        while slots[slot].1 > 0 && slots[slot].0 != half {
            slot = (slot + 1) & mask;
        }
        let times = slots[slot].1 + 1;
        slots[slot] = (half, times);
        visit(times);
    }
    slots
}

/// Number of runs of equal strings.
fn count_runs(strings: &[&[u8]]) -> usize {
    strings.windows(2).filter(|pair| !same_string(pair[0], pair[1])).count() + strings.len().min(1)
}

fn sample_starts(rows: usize) -> impl Iterator<Item = usize> {
    let vectors = rows.div_ceil(VECTOR_ROWS);
    let count = vectors.min(SAMPLE_VECTORS);
    // Spread evenly; with few vectors, all of them.
    (0..count).map(move |index| index * vectors / count.max(1) * VECTOR_ROWS)
}

/// A few whole vectors, spread evenly.
pub(crate) fn sample_vectors<T>(values: &[T]) -> Vec<&[T]> {
    sample_starts(values.len()).map(|start| &values[start..(start + VECTOR_ROWS).min(values.len())]).collect()
}

/// Encoded bytes per byte of what phrases leave of strings of which symbols leave so much, about.
fn literal_ratio(ratio: f64) -> f64 {
    (ratio * LITERAL_HARDNESS).min(1.0)
}

/// Facts about byte strings.
pub(crate) struct StringStatistics<'a> {
    strings: &'a [&'a [u8]],
    pub total_bytes: usize,
    symbols: OnceCell<Trained>,
    /// The symbols of the rests behind what each string shares with the one before, where those alone were asked for.
    rest_symbols: OnceCell<Trained>,
    phrases: OnceCell<Option<(Arc<PhraseText>, f64)>>,
    length_bytes: OnceCell<f64>,
    /// What was learned of strings that may be like these.
    heard: OnceCell<Lessons>,
}

/// A symbol table, and encoded bytes per byte.
#[derive(Clone)]
struct Trained {
    table: Arc<SymbolTable>,
    ratio: f64,
}

impl Trained {
    /// The same table for other strings of which it leaves so much, if that is nearly as little.
    fn if_as_good(&self, ratio: f64) -> Option<Self> {
        (ratio <= self.ratio * NEARLY_AS_WELL).then(|| Self { table: self.table.clone(), ratio })
    }
}

/// What was learned from the strings of one node, for those of the next block or of a child.
#[derive(Clone, Default)]
pub(crate) struct Lessons {
    symbols: Option<Trained>,
    /// Symbols of the rests behind what each string shares with the one before.
    rests: Option<Trained>,
    /// The text, and the bytes that one byte of strings took by it.
    phrases: Option<(Arc<PhraseText>, f64)>,
}

impl fmt::Debug for Lessons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lessons").finish_non_exhaustive()
    }
}

impl<'a> StringStatistics<'a> {
    fn new(strings: &'a [&'a [u8]]) -> Self {
        let total_bytes = strings.iter().map(|string| string.len()).sum();
        Self {
            strings,
            total_bytes,
            symbols: OnceCell::new(),
            rest_symbols: OnceCell::new(),
            phrases: OnceCell::new(),
            length_bytes: OnceCell::new(),
            heard: OnceCell::new(),
        }
    }

    /// The symbol table trained on these strings.
    pub fn symbol_table(&self) -> &SymbolTable {
        &self.trained().table
    }

    /// Encoded bytes per byte with the trained table, and the table's own size; of few strings, none is trained.
    pub fn symbols(&self) -> (f64, f64) {
        if self.total_bytes < SYMBOLS_MIN_BYTES {
            return (1.0, 0.0);
        }
        let Trained { table, ratio, .. } = self.trained();
        let mut bytes = Vec::new();
        table.to_bytes(&mut bytes);
        (*ratio, bytes.len() as f64)
    }

    /// Encoded bytes per byte of the rests behind what strings share with those before, by symbols learned of them; `rest` is that of a row.
    /// `None` where they are too few for that, `about_bytes` all together.
    pub fn rest_ratio(&self, about_bytes: usize, rest: impl Fn(usize) -> &'a [u8]) -> Option<f64> {
        if self.rest_symbols.get().is_none() {
            let count = self.strings.len();
            let heard = self.heard.get().and_then(|heard| heard.rests.as_ref());
            let learned = heard.and_then(|heard| heard.if_as_good(heard.table.ratio_picked(count, &rest)));
            let trained = match learned {
                Some(learned) => learned,
                None => {
                    let (table, ratio) = SymbolTable::train_picked(count, about_bytes, rest)?;
                    Trained { table: Arc::new(table), ratio }
                }
            };
            let _ = self.rest_symbols.set(trained);
        }
        self.rest_symbols.get().map(|trained| trained.ratio)
    }

    /// What was learned of the rests: then no symbols of the strings are worth learning.
    pub(super) fn rest_lessons(&self) -> Option<Lessons> {
        self.rest_symbols.get().map(|trained| Lessons { symbols: Some(trained.clone()), ..Lessons::default() })
    }

    /// True where symbols of the rests are known to do better than symbols of the strings.
    pub fn are_best_as_rests(&self) -> bool {
        self.rest_symbols.get().is_some()
    }

    /// Bytes that the strings take as symbols, the table's included, about.
    fn symbol_bytes(&self) -> f64 {
        let (ratio, table_bytes) = self.symbols();
        self.total_bytes as f64 * ratio + table_bytes
    }

    fn trained(&self) -> &Trained {
        self.symbols.get_or_init(|| {
            self.heard_symbols().unwrap_or_else(|| {
                let table = Arc::new(SymbolTable::train(self.strings));
                let ratio = table.ratio(self.strings);
                Trained { table, ratio }
            })
        })
    }

    /// Symbols of other strings, if they do nearly as well here.
    fn heard_symbols(&self) -> Option<Trained> {
        let heard = self.heard.get()?.symbols.as_ref()?;
        heard.if_as_good(heard.table.ratio(self.strings))
    }

    /// Learns symbols, if that isn't done; false where it shows on the way that they would plainly take more bytes than that.
    fn learns_symbols_of(&self, most_bytes: f64) -> bool {
        if self.symbols.get().is_none() && self.total_bytes >= SYMBOLS_MIN_BYTES {
            let learn = || {
                let most_ratio = most_bytes / self.total_bytes as f64;
                let table = Arc::new(SymbolTable::train_unless_more(self.strings, most_ratio)?);
                let ratio = table.ratio(self.strings);
                Some(Trained { table, ratio })
            };
            let Some(trained) = self.heard_symbols().or_else(learn) else { return false };
            let _ = self.symbols.set(trained);
        }
        true
    }

    /// The text that the strings have in common, if they are long enough to have one.
    pub fn phrase_text(&self) -> Option<&PhraseText> {
        self.phrases(f64::MAX).map(|(text, _)| &**text)
    }

    /// Bytes that the strings take as phrases of their text, about; `None` also where it shows early that they are more than `best_bytes`.
    pub fn phrase_bytes(&self, best_bytes: f64) -> Option<f64> {
        self.phrases(best_bytes).map(|(_, bytes)| *bytes)
    }

    fn phrases(&self, best_bytes: f64) -> Option<&(Arc<PhraseText>, f64)> {
        let find = || {
            if self.total_bytes < PHRASE_MIN_BYTES || self.total_bytes < PHRASE_MIN_AVERAGE * self.strings.len() {
                return None;
            }
            if let Some((text, before)) = self.heard.get().and_then(|heard| heard.phrases.as_ref()) {
                let bytes = self.bytes_by(text);
                if bytes <= before * NEARLY_AS_WELL * self.total_bytes as f64 {
                    return Some((text.clone(), bytes));
                }
            }
            if !words_recur(self.strings, self.total_bytes) {
                return None;
            }
            // Symbols aren't learned where the least that they can leave is too much.
            let is_worth = |seen: Coverage| {
                let may_be_worth = |ratio: f64| self.hoped_for_phrase_bytes(seen, ratio) < best_bytes * PHRASE_HOPE;
                may_be_worth(LEAST_SYMBOL_RATIO) && may_be_worth(self.symbols().0)
            };
            let text = Arc::new(PhraseText::of_worth(self.strings, is_worth)?);
            let bytes = self.bytes_by(&text);
            Some((text, bytes))
        };
        self.phrases.get_or_init(find).as_ref()
    }

    /// Bytes that the strings take as phrases, about, if all are covered as those that were seen are, and symbols leave this share of
    /// bytes. What a text is chosen from covers more than the text will: then it is hardly more.
    fn hoped_for_phrase_bytes(&self, seen: Coverage, ratio: f64) -> f64 {
        let literal_bytes = (seen.bytes - seen.covered_bytes) as f64 * literal_ratio(ratio);
        let taken = literal_bytes + seen.phrases as f64 * PHRASE_BYTES + seen.strings as f64 * COUNT_BYTES;
        taken * self.total_bytes as f64 / seen.bytes.max(1) as f64 + seen.text_bytes as f64 * ratio.min(1.0)
    }

    /// Bytes that the strings take as phrases of this text, about.
    fn bytes_by(&self, text: &PhraseText) -> f64 {
        let mut parsed = Parsed::default();
        let mut bytes = 0;
        let step = self.total_bytes.div_ceil(SAMPLE_BYTES).max(1);
        for string in self.strings.iter().skip(step / 2).step_by(step) {
            text.parse(string, &mut parsed);
            bytes += string.len();
        }
        let scale = self.total_bytes as f64 / bytes.max(1) as f64;
        let mut distinct = parsed.phrases.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let phrase_bits = 4.0 + (distinct.len().max(1) as f64).log2();
        let literal_bytes = parsed.literals.len() as f64 * literal_ratio(self.symbols().0);
        let phrase_bytes = parsed.phrases.len() as f64 * phrase_bits / 8.0;
        let sampled = literal_bytes + phrase_bytes + parsed.counts.len() as f64 * COUNT_BYTES;
        let once = text.bytes().len() as f64 * self.symbols().0.min(1.0) + distinct.len() as f64 * 3.0 + 100.0;
        sampled * scale + once
    }

    /// What was learned here, for strings that may be like these.
    pub(super) fn lessons(&self) -> Lessons {
        let phrases = self.phrases.get().and_then(Option::as_ref);
        let per_byte = |(text, bytes): &(Arc<PhraseText>, f64)| (text.clone(), bytes / self.total_bytes.max(1) as f64);
        let (symbols, rests) = (self.symbols.get().cloned(), self.rest_symbols.get().cloned());
        Lessons { symbols, rests, phrases: phrases.map(per_byte) }
    }

    /// Takes over what was learned of these very strings.
    pub(super) fn adopt(&self, lessons: &Lessons) {
        if let Some(trained) = &lessons.symbols {
            let _ = self.symbols.set(trained.clone());
        }
        if let Some((text, bytes_per_byte)) = &lessons.phrases {
            let _ = self.phrases.set(Some((text.clone(), bytes_per_byte * self.total_bytes as f64)));
        }
    }

    /// Tells what was learned of other strings, which is taken over where it does here nearly as well as it did there: then it isn't
    /// learned anew. What was told first counts.
    pub(super) fn hear(&self, lessons: &Lessons) {
        let _ = self.heard.set(lessons.clone());
    }

    /// The share of bytes that the strings would have in common with the one before, if sorted; at least.
    pub fn shared_share(&self) -> f64 {
        shared_share(self.strings)
    }

    /// Bytes that the lengths take, about.
    pub fn length_bytes(&self) -> f64 {
        *self.length_bytes.get_or_init(|| {
            let lengths = |vector: &[&[u8]]| vector.iter().map(|string| string.len() as u32).collect::<Vec<_>>();
            let sample = sample_vectors(self.strings);
            let rows: usize = sample.iter().map(|vector| vector.len()).sum();
            let bytes: f64 = sample.iter().map(|vector| plan(&lengths(vector), false).size_bytes()).sum();
            bytes * self.strings.len() as f64 / rows.max(1) as f64
        })
    }

    /// True if a dictionary of so many values takes less than all strings as symbols, however much shorter those make either. Where
    /// phrases may be looked for, that isn't said.
    fn are_repetitive(&self, distinct: usize) -> bool {
        if distinct * 2 >= self.strings.len() {
            return false;
        }
        let code_bits = f64::from(usize::BITS - distinct.saturating_sub(1).leading_zeros());
        let (rows, least_bytes) = (self.strings.len() as f64, self.total_bytes as f64 * LEAST_SYMBOL_RATIO);
        let values = distinct as f64 * (least_bytes / rows.max(1.0) + 0.75);
        rows * code_bits / 8.0 + values + 40.0 < least_bytes + self.length_bytes()
    }

    /// Bytes that one value of a dictionary of `distinct` values takes, about.
    pub fn distinct_value_bytes(&self, distinct: usize) -> f64 {
        let average = self.total_bytes as f64 / self.strings.len().max(1) as f64;
        // Repeated strings are phrases of one another, which says nothing about distinct ones.
        let by_symbols = || self.symbols().0.min(1.0);
        let ratio = match distinct * 2 >= self.strings.len() {
            _ if average * (distinct as f64) < 4096.0 => 1.0,
            _ if distinct * REPETITIVE < self.strings.len() || self.are_repetitive(distinct) => SYMBOL_RATIO,
            true => {
                let best_bytes = by_symbols() * self.total_bytes as f64;
                self.phrase_bytes(best_bytes).map_or(best_bytes, |bytes| bytes.min(best_bytes))
                    / self.total_bytes as f64
            }
            false => by_symbols(),
        };
        average * ratio + 0.75
    }
}
