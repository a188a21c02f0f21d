//! The owner of handles and the polled port, over a backend in memory.

mod chance;
mod crew;
mod drops;
mod fake;
mod held;
mod killed;
mod owner;
mod port;
mod races;
mod served;
