//! Places for decoded values that are used again and again.

use crate::values::{BytesForm, Decoded, DecodedValues};
use crate::{Lane, Physical, with_decoded_lanes};

/// Places that nobody needs at the moment.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<Decoded>);

impl Scratch {
    /// An empty place for values of this type, byte strings in this form; [`Scratch::give_back`] keeps it.
    pub fn take(&mut self, physical: &Physical, form: BytesForm) -> Decoded {
        let is_like = |used: &Decoded| match (physical, &used.values) {
            (Physical::Bool, DecodedValues::Bool(_)) => true,
            (Physical::Fixed(fixed), lanes) => {
                with_decoded_lanes!(lanes, lanes => lane_bytes(lanes) == fixed.size_bytes(), false)
            }
            _ => false,
        };
        match self.0.iter().position(is_like) {
            Some(index) => {
                let mut used = self.0.swap_remove(index);
                used.clear();
                used
            }
            None => Decoded::new(physical, form),
        }
    }

    /// Keeps a place for the next time.
    pub fn give_back(&mut self, place: Decoded) {
        // Byte strings start afresh, so there is nothing to keep of them.
        if !matches!(place.values, DecodedValues::Bytes(_)) {
            self.0.push(place);
        }
    }
}

fn lane_bytes<T: Lane>(_: &[T]) -> usize {
    T::BYTES
}
