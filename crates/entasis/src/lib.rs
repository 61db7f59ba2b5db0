//! The `.ent` file format.
