//! An order, from the shelf to the parcel: the workflow of the demo and its activities.
//!
//! Money and goods must agree whatever happens in between: what was done is undone, last first,
//! when a later part fails for good.

use std::fmt;

use outlast::prelude::*;
use serde::{Deserialize, Serialize};

use super::shop::{Odd, Shop};

/// What a customer wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) item: String,
    pub(crate) cents: u64,
}

/// An item taken from the shelf.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reservation {
    order: u64,
    shelf: String,
}

/// Money taken from a card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    order: u64,
    cents: u64,
}

/// What the customer gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parcel {
    pub(crate) order: u64,
    pub(crate) label: String,
}

/// Why a card was not charged.
#[derive(Clone, Debug, Serialize, Deserialize, outlast::Failure)]
pub(crate) enum ChargeError {
    /// The bank says no, and will say so again.
    #[failure(terminal)]
    Declined,
    /// The bank does not answer.
    NoAnswer,
}

impl fmt::Display for ChargeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Declined => "the card was declined",
            Self::NoAnswer => "the bank did not answer",
        })
    }
}

impl std::error::Error for ChargeError {}

#[workflow]
pub(crate) async fn order(ctx: Ctx, order: Order) -> Result<Parcel> {
    let reserved = ctx.run(reserve, &order).undo(put_back).await?;
    let patience = RetryPolicy::times(20)
        .initial(20.millis())
        .max_interval(500.millis());
    let receipt = ctx.run(charge, &order).retry(patience).undo(refund).await?;
    let shelf = reserved.shelf.clone();
    let label = ctx.step("print label", move || {
        let label = format!("{shelf}-{}", receipt.cents);
        async move { outlast::Ok(label) }
    });
    let label = label.await?;
    // The parcel waits for the van.
    ctx.sleep(50.millis()).await?;
    let parcel = Parcel {
        order: order.number,
        label,
    };
    Ok(ctx.run(ship, &parcel).await?)
}

#[activity]
pub(crate) async fn reserve(State(shop): State<Shop>, order: Order) -> Result<Reservation> {
    shop.take_a_moment().await;
    Ok(Reservation {
        order: order.number,
        shelf: order.item,
    })
}

#[activity]
pub(crate) async fn put_back(State(shop): State<Shop>, reservation: Reservation) -> Result<()> {
    shop.put_back(reservation.order).await;
    Ok(())
}

#[activity(start_to_close = "5s")]
pub(crate) async fn charge(
    ctx: ActivityCtx,
    State(shop): State<Shop>,
    order: Order,
) -> Result<Receipt, ChargeError> {
    shop.take_a_moment().await;
    match shop.odd(order.number, ctx.attempt()) {
        Odd::Declined => Err(ChargeError::Declined),
        Odd::NoAnswer => Err(ChargeError::NoAnswer),
        Odd::Fine => Ok(Receipt {
            order: order.number,
            cents: order.cents,
        }),
    }
}

#[activity]
pub(crate) async fn refund(State(shop): State<Shop>, receipt: Receipt) -> Result<()> {
    shop.put_back(receipt.order).await;
    Ok(())
}

#[activity]
pub(crate) async fn ship(State(shop): State<Shop>, parcel: Parcel) -> Result<Parcel> {
    shop.take_a_moment().await;
    Ok(parcel)
}
