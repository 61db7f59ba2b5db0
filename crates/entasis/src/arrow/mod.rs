//! The Arrow side: types on disk, arrays lent to the encodings, decoded values as arrays.

mod categories;
mod dictionary;
mod input;
mod interval;
mod lent;
mod output;
mod physical;
mod plain;
mod rows;
mod runs;
mod shred;
mod strings;
mod target;
pub mod types;
mod union;
mod utf8;

pub use categories::{Categories, most_values, ordered_types};
pub use input::{Input, bits_of, with_column};
pub use lent::{lent_row_bytes, lent_to_arrow, may_be_lent};
pub use output::{empty_array, to_arrow};
pub use physical::physical_of;
pub use plain::{is_plain, is_taken_by_arrow, plain_array, plain_type, widest_type, without_dictionaries};
pub use runs::most_rows;
pub use shred::{ColumnNode, Split, shred};
pub use target::{Strings, bytes_form_of, empty_decoded, target_field, target_type};
