pub mod model;
pub mod top;
pub mod traffic;
pub mod world;
