//! The answers that repeats get: jobs that were published, in stored form.

use base::Timestamp;
use records::JobId;

use super::PublishedJob;

const JOB_BYTES: usize = 24;

/// The jobs of an answer: 16 bytes of id and 8 of time each.
pub(super) fn write(jobs: &[PublishedJob]) -> Vec<u8> {
    let bytes = |job: &PublishedJob| job.id.0.into_iter().chain(job.run_at.0.to_le_bytes());
    jobs.iter().flat_map(bytes).collect()
}

/// Reads them back; what is cut short is left out.
pub(super) fn read(bytes: &[u8]) -> Vec<PublishedJob> {
    let job = |bytes: &[u8; JOB_BYTES]| {
        let (mut id, mut at) = ([0; 16], [0; 8]);
        id.copy_from_slice(&bytes[..16]);
        at.copy_from_slice(&bytes[16..]);
        PublishedJob { id: JobId(id), run_at: Timestamp(i64::from_le_bytes(at)) }
    };
    bytes.as_chunks().0.iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_back() {
        let job = |n: u8| PublishedJob { id: JobId([n; 16]), run_at: Timestamp(i64::from(n) - 3) };
        let jobs = [job(1), job(200)];
        assert_eq!(read(&write(&jobs)), jobs);
    }
}
