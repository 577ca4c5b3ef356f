//! A client's odd first words do not end the server.

use rmcp::RoleServer;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that passes over what is no request until the first one came. The SDK gives up on a client that begins with
/// anything else, such as a notification.
pub(super) struct Patient<T> {
    inner: T,
    began: bool,
}

impl<T> Patient<T> {
    pub(super) fn new(inner: T) -> Self {
        Self {
            inner,
            began: false,
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            self.began |= matches!(message, ClientJsonRpcMessage::Request(_));
            if self.began {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
