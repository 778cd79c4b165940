//! Serving HTTP/1.1: the listener, what it does with large answers, and which web pages may call.

mod answer_pace;
mod listener;
mod sending;
mod web;

pub use listener::HttpListener;
pub use sending::LargeAnswers;
pub use web::WebAccess;
