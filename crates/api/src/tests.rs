//! The API from outside: requests into its router over an engine in memory, and what is answered.
