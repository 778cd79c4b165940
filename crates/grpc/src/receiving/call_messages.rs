//! The messages of a call that sends many, without a buffer that stays as large as the largest was.
//!
//! A [`Streaming`] keeps its buffer as long as the call lasts, long after the message in it has
//! given back its memory of the budget. So the body of such a call is shared, and behind each large
//! message another `Streaming` goes on with it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

use base::locks::locked;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Extensions;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use prost::Message;
use tonic::{Request, Status, Streaming};

use super::{Guarded, Sends};
use crate::items::{HasItems, ItemDecoder};
use crate::status::coded;

/// The body of a call that sends many messages, as an extension of its request.
pub(super) struct CallBody<B>(Arc<Mutex<Guarded<B>>>);

impl<B> CallBody<B> {
    pub(super) fn new(body: Guarded<B>) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// The bytes of a large message that was just given out.
    fn take_ended_large(&self) -> Option<usize> {
        let mut body = locked(&self.0);
        std::mem::take(&mut body.is_large_over).then_some(body.message.bytes)
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
        Pin::new(&mut *locked(&self.0)).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        locked(&self.0).is_end_stream()
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
    /// The message that was given out last, in bytes as it came; 0 if it is not large.
    pub(super) large_bytes: usize,
}

impl<T> CallMessages<T> {
    /// A request for messages of up to so many bytes.
    pub(crate) fn of(mut request: Request<Streaming<T>>, bytes_max: usize) -> Request<Self> {
        let body = request.extensions_mut().remove();
        request.map(|streaming| Self { streaming, body, bytes_max, large_bytes: 0 })
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

    /// Says whether others wait for the memory of a message that has half come. While answers of
    /// the call are not taken, nobody reads on, and so nobody else looks.
    pub(crate) fn memory_wanted(&self) -> impl Fn() -> bool + Send + Sync + use<T, B> {
        let body = self.body.as_ref().map_or_else(Weak::new, |body| Arc::downgrade(&body.0));
        move || body.upgrade().is_some_and(|body| locked(&body).is_memory_wanted())
    }

    /// The message that was given out last, in bytes as it came; 0 if it is not large. What was
    /// read out of it may keep all of them.
    pub(crate) fn large_bytes(&self) -> usize {
        self.large_bytes
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
        this.large_bytes = 0;
        match (&message, &this.body) {
            (Some(Ok(_)), Some(body)) => {
                if let Some(bytes) = body.take_ended_large() {
                    // The buffer is empty here: the body gives out nothing behind such a message
                    // in one piece with it.
                    this.streaming = Self::streaming(body, this.bytes_max);
                    this.large_bytes = bytes;
                }
            }
            // Nothing comes behind what cannot be read, and its call may go on for a while.
            (Some(Err(_)), _) => {
                this.streaming =
                    Streaming::new_empty(ItemDecoder::<T>::default(), tonic::body::Body::empty());
                this.body = None;
            }
            _ => {}
        }
        let with_code = |refused: Status| coded(&refused).unwrap_or(refused);
        Poll::Ready(message.map(|message| message.map_err(with_code)))
    }
}
