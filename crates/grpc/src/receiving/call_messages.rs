//! The messages of a call that sends many, without a buffer that stays as large as the largest was.
//!
//! A [`Streaming`] keeps its buffer as long as the call lasts, long after the message in it has
//! given back its memory of the budget. So the body of such a call is shared, and behind each large
//! message another `Streaming` goes on with it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Extensions;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use prost::Message;
use tonic::{Request, Status, Streaming};

use super::{Guarded, Sends};
use crate::items::{HasItems, ItemDecoder};

/// The body of a call that sends many messages, as an extension of its request.
pub(super) struct CallBody<B>(Arc<Mutex<Guarded<B>>>);

impl<B> CallBody<B> {
    pub(super) fn new(body: Guarded<B>) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// Whether a large message was just given out.
    fn has_ended_a_large_one(&self) -> bool {
        std::mem::take(&mut self.lock().is_large_over)
    }

    fn lock(&self) -> MutexGuard<'_, Guarded<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> Clone for CallBody<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for CallBody<B>
where
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut *self.lock()).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }
}

impl Guarded<Incoming> {
    /// The body as services read it. That of a call that sends many messages is put beside the
    /// request too, for [`CallMessages`].
    pub(crate) fn into_body(self, extensions: &mut Extensions) -> tonic::body::Body {
        match self.sends {
            Sends::One => tonic::body::Body::new(self),
            Sends::Stream => {
                let body = CallBody::new(self);
                extensions.insert(body.clone());
                tonic::body::Body::new(body)
            }
        }
    }
}

/// The messages of a call that sends many.
pub(crate) struct CallMessages<T, B = Incoming> {
    pub(super) streaming: Streaming<T>,
    /// `None` where the request came over no connection.
    pub(super) body: Option<CallBody<B>>,
    /// The largest message, in bytes.
    pub(super) bytes_max: usize,
}

impl<T> CallMessages<T> {
    /// A request for messages of up to so many bytes.
    pub(crate) fn of(mut request: Request<Streaming<T>>, bytes_max: usize) -> Request<Self> {
        let body = request.extensions_mut().remove();
        request.map(|streaming| Self { streaming, body, bytes_max })
    }
}

impl<T, B> CallMessages<T, B>
where
    T: Message + Default + HasItems + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    /// What reads this body from here on.
    pub(super) fn streaming(body: &CallBody<B>, bytes_max: usize) -> Streaming<T> {
        Streaming::new_request(ItemDecoder::<T>::default(), body.clone(), None, Some(bytes_max))
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Result<Option<T>, Status> {
        self.next().await.transpose()
    }
}

impl<T, B> Stream for CallMessages<T, B>
where
    T: Message + Default + HasItems + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let message = ready!(this.streaming.poll_next_unpin(cx));
        match (&message, &this.body) {
            // The buffer is empty here: the body gives out nothing behind such a message in one
            // piece with it.
            (Some(Ok(_)), Some(body)) if body.has_ended_a_large_one() => {
                this.streaming = Self::streaming(body, this.bytes_max);
            }
            // Nothing comes behind what cannot be read, and its call may go on for a while.
            (Some(Err(_)), _) => {
                this.streaming =
                    Streaming::new_empty(ItemDecoder::<T>::default(), tonic::body::Body::empty());
                this.body = None;
            }
            _ => {}
        }
        Poll::Ready(message)
    }
}
