//! The hardware-offload description language (HDL; never a hardware description language): what a card can do, as data.
//!
//! [`Manifest`] is the one type behind every form: JSON, its JSON Schema, the CBOR image, the data sheet. [`registry`] holds
//! the capability ids and what a host does when a card lacks one, [`Manifest::of`] makes the manifest of a configuration of our card, [`check`] is what a manifest has to
//! keep beyond its types. The register map is a separate thing ([`svd`]): a portable manifest only names it.
//!
//! This is a package of its own and no feature of `hdl-spec`, which it lies in: RTL, driver and simulator need none of it, and cargo would build all of
//! them, with the Verilated card, once with that feature and once without.
//!
//! Without the feature `std` there are the types, [`Manifest::of`], [`check`] and the CBOR image: `no_std` with an allocator.
#![no_std]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod agree;
mod build;
pub mod cbor;
pub mod check;
mod measured;
mod possible;
pub mod promises;
pub mod registry;
mod types;

#[cfg(feature = "std")]
pub mod diff;
#[cfg(feature = "std")]
pub mod evidence;
#[cfg(feature = "std")]
mod form;
#[cfg(feature = "std")]
pub mod json;
#[cfg(feature = "std")]
pub mod profile;
#[cfg(feature = "std")]
pub mod sheet;
#[cfg(feature = "std")]
pub mod svd;

pub use build::of_parts;
pub use types::*;

use alloc::string::String;

/// Version of the language that this crate writes and reads. Another major is refused; what a newer minor adds is ignored.
pub const SCHEMA: Version = Version { major: 1, minor: 1 };
/// Larger files are refused before they are looked into.
pub const MAX_BYTES: usize = 256 * 1024;
/// Deeper nesting is refused before anything is built from it.
pub const MAX_DEPTH: usize = 16;

/// Why something is no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The file can't be opened or read.
    Unreadable(String),
    /// More than [`MAX_BYTES`].
    TooLarge(u64),
    /// Another major version of the language.
    Version(Version),
    /// Not well-formed, or not of these types.
    Malformed(String),
    /// An image whose checksum is another.
    Checksum { said: u32, is: u32 },
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::TooLarge(n) => write!(
                f,
                "{n} bytes are no manifest: at most {MAX_BYTES} are read"
            ),
            Error::Version(v) => write!(
                f,
                "written for version {}.{} of the language, and this program reads {}.x: another major version means other rules, so nothing of it is used",
                v.major, v.minor, SCHEMA.major
            ),
            Error::Unreadable(s) | Error::Malformed(s) => f.write_str(s),
            Error::Checksum { said, is } => write!(
                f,
                "damaged: its checksum is {is:08x}, and it says {said:08x}"
            ),
        }
    }
}

impl core::error::Error for Error {}
