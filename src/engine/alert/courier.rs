//! One thread for each channel that has something to deliver, so that a channel which hangs stops nobody.

use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender as Results, SyncSender, channel, sync_channel,
};
use std::thread;
use std::time::Instant;

use tracing::{info, warn};

use super::deliveries::Parcel;
use super::send::{Running, Sender, Undelivered};
use super::settings::Channel;
use crate::model::Timestamp;

/// Messages in one channel's hands at a time; what is beyond stays in the table.
pub(super) const QUEUE: usize = 4;

/// What became of a message.
pub(super) struct Done {
    pub(super) alert: i64,
    pub(super) channel: &'static str,
    pub(super) outcome: Result<(), Undelivered>,
}

/// A channel and, once it was needed, its thread.
struct Courier {
    channel: Channel,
    queue: Option<SyncSender<(Parcel, Timestamp)>>,
    running: Running,
    in_hand: usize,
}

/// All channels.
pub(super) struct Couriers {
    couriers: Vec<Courier>,
    results: (Results<Done>, Receiver<Done>),
}

impl Couriers {
    pub(super) fn new(channels: Vec<Channel>) -> Self {
        Self {
            couriers: channels
                .into_iter()
                .map(|channel| Courier {
                    channel,
                    queue: None,
                    running: Running::default(),
                    in_hand: 0,
                })
                .collect(),
            results: channel(),
        }
    }

    /// Returns each channel's name and how many messages it can still take.
    pub(super) fn room(&self) -> Vec<(&'static str, usize)> {
        let room = |courier: &Courier| (courier.channel.name(), QUEUE - courier.in_hand);
        self.couriers.iter().map(room).collect()
    }

    /// Returns how many messages are in hand.
    pub(super) fn in_hand(&self) -> usize {
        self.couriers.iter().map(|courier| courier.in_hand).sum()
    }

    /// Hands a message to its channel; never waits. Says whether it was taken.
    pub(super) fn hand(&mut self, parcel: Parcel, now: Timestamp) -> bool {
        let mut couriers = self.couriers.iter_mut();
        let Some(courier) = couriers.find(|courier| courier.channel.name() == parcel.channel)
        else {
            return false;
        };
        if courier.queue.is_none() {
            courier.queue = start(courier, self.results.0.clone());
        }
        let Some(queue) = &courier.queue else {
            return false;
        };
        let taken = queue.try_send((parcel, now)).is_ok();
        courier.in_hand += usize::from(taken);
        taken
    }

    /// Returns the next result that comes before `end`; `None` when none came.
    pub(super) fn result(&mut self, end: Instant) -> Option<Done> {
        let left = end.saturating_duration_since(Instant::now());
        let done = match self.results.1.recv_timeout(left) {
            Ok(done) => done,
            // We hold a sender ourselves, so it is never cut off.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        };
        let mut couriers = self.couriers.iter_mut();
        if let Some(courier) = couriers.find(|courier| courier.channel.name() == done.channel) {
            courier.in_hand -= 1;
        }
        Some(done)
    }
}

impl Drop for Couriers {
    /// Leaves no command behind. A request that hangs ends with the process.
    fn drop(&mut self) {
        for courier in &self.couriers {
            courier.running.end();
        }
    }
}

/// Tells the log what became of a message.
fn tell(parcel: &Parcel, outcome: &Result<(), Undelivered>) {
    let (alert, channel) = (parcel.alert, parcel.channel);
    match outcome {
        Ok(()) => info!(alert, channel, "delivered"),
        Err(why) => warn!(alert, channel, reason = why.reason, "not delivered"),
    }
}

fn start(courier: &Courier, results: Results<Done>) -> Option<SyncSender<(Parcel, Timestamp)>> {
    let (queue, parcels) = sync_channel::<(Parcel, Timestamp)>(QUEUE);
    let mut sender = Sender::new(courier.channel.clone(), courier.running.clone());
    thread::Builder::new()
        .name(format!("alert-{}", courier.channel.name()))
        .spawn(move || {
            for (parcel, at) in parcels {
                let outcome = sender.send(&parcel.message, at);
                tell(&parcel, &outcome);
                fail::fail_point!("alert.sent");
                let done = Done {
                    alert: parcel.alert,
                    channel: parcel.channel,
                    outcome,
                };
                if results.send(done).is_err() {
                    return;
                }
            }
        })
        .ok()
        .map(|_| queue)
}
