//! What the API makes backups with: the store, in whose hands the pieces are.

use std::sync::Arc;

use api::BackupPieces;
use store::EmbeddedStore;

/// Begins backups of `store`.
pub(super) fn begin(
    store: &Arc<EmbeddedStore>,
) -> impl Fn() -> Result<BackupPieces, String> + Send + Sync + 'static {
    let store = Arc::clone(store);
    move || {
        let mut backup = store.backup().map_err(|error| error.to_string())?;
        let pieces =
            std::iter::from_fn(move || backup.next_piece().map_err(|error| error.to_string()).transpose());
        Ok(Box::new(pieces) as BackupPieces)
    }
}
