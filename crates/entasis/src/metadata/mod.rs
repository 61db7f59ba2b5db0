//! Metadata: what a file says about itself (`spec/file.md`). Everything here reads only the pages that it touches.

pub mod file_record;
pub mod index;
mod optional;
pub mod pages;
pub mod record;
pub mod trailer;
