//! Transport reference model.
