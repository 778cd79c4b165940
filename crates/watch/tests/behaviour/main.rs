//! How a watch behaves, seen through its public face: scenes, row by row, and random lives against
//! a naive model.

mod model;
mod random_lives;
mod scenes;
mod stored_devices;
