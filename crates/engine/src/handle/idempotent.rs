//! Calls of requests that may come again: answered in the form of whoever asks, which is kept in
//! the batch of what was done.

use std::sync::Arc;

use base::{ClientId, EntityId, Problem, random};
use fleet::Made;
use records::Client;

use super::Engine;
use crate::devices::input::{DeviceInput, Repeatable};
use crate::kernel::idempotency::AnswerForm;
use crate::queries::DeviceDetails;
use crate::registry::{RegistryInput, RepeatableOfClients};
use crate::{NewClient, NewDevice};

impl Engine {
    /// [`Engine::rotate_secret`] for a request that may come again; answers in its form, refusals
    /// too.
    ///
    /// # Errors
    /// 422 `idempotency_key_reused`; 503 when not accepting.
    pub async fn rotate_secret_as(
        &self,
        id: ClientId,
        form: AnswerForm<Client>,
    ) -> Result<Arc<[u8]>, Problem> {
        let act = RepeatableOfClients::Rotate { id, secret: Box::new(unguessable()?) };
        self.shared.registry.ask(|reply| RegistryInput::Repeatable { act, form, reply }).await?
    }

    /// [`Engine::create_client`] for a request that may come again.
    ///
    /// # Errors
    /// See [`Engine::rotate_secret_as`].
    pub async fn create_client_as(
        &self,
        client: NewClient,
        form: AnswerForm<Client>,
    ) -> Result<Arc<[u8]>, Problem> {
        let act = RepeatableOfClients::Create { client: Box::new(client), made: Box::new(made()?) };
        self.shared.registry.ask(|reply| RegistryInput::Repeatable { act, form, reply }).await?
    }

    /// [`Engine::create_device`] for a request that may come again. Its answer is in the device's
    /// partition: a repeat that names another device is not recognised there.
    ///
    /// # Errors
    /// See [`Engine::rotate_secret_as`]; and what is wrong with the device as such.
    pub async fn create_device_as(
        &self,
        device: NewDevice,
        form: AnswerForm<DeviceDetails>,
    ) -> Result<Arc<[u8]>, Problem> {
        let device = Box::new(device.check(&self.shared.settings.registry_rules())?);
        let partition = self.partition_with(device.id());
        let act = Repeatable::CreateDevice(device, form);
        partition.ask(|reply| DeviceInput::Repeatable { act, reply }).await?
    }

    /// [`Engine::retry_delivery`] for a request that may come again.
    ///
    /// # Errors
    /// See [`Engine::rotate_secret_as`].
    pub async fn retry_delivery_as(&self, id: EntityId, form: AnswerForm<()>) -> Result<Arc<[u8]>, Problem> {
        let partition = &self.shared.partitions[usize::from(self.partition_of(id.routing).0)];
        let act = Repeatable::RetryDelivery(id, form);
        partition.ask(|reply| DeviceInput::Repeatable { act, reply }).await?
    }
}

pub(super) fn made() -> Result<Made, Problem> {
    Ok(Made { id: unguessable()?, secret: unguessable()? })
}

pub(super) fn unguessable<const N: usize>() -> Result<[u8; N], Problem> {
    random::unguessable().map_err(|_| Problem::unavailable("the system has no source of randomness"))
}
