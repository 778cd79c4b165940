//! Reports through a real RabbitMQ, published with lapin and with Python's pika, taken by the built
//! program.

mod outages;
mod rig;
mod taking;
