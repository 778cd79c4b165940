//! Serving HTTP/1.1: the listener, what it does with large answers, and which web pages may call.

mod answer_pace;
mod large_answers;
mod large_requests;
mod listener;
mod web;

pub use large_answers::LargeAnswers;
pub use listener::HttpListener;
pub use web::WebAccess;
