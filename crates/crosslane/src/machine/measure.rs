// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measured rates of a card, if this program may open it and it has this project's engine.

use std::time::Duration;

use crosslane_driver::DescriptorSource;
use crosslane_experiment::{Options, read, write};
use crosslane_open::{DeviceName, Session, SessionOptions};
use crosslane_results::machine::MeasuredRate;
use crosslane_vfio::sysfs::{PciFunction, why_kept};

/// Transfers in each direction, all posted at once, so that the engine never waits while data are
/// compared.
const TRANSFERS: u32 = 16;

/// Measures both directions between the card and host memory; every byte is compared.
///
/// # Errors
/// The reason for which nothing can be measured, a sentence.
pub fn measure(card: &PciFunction) -> Result<Vec<MeasuredRate>, String> {
    if !card.is_bound_to_vfio() {
        let address = card.address;
        return Err(match why_kept(card) {
            Some(why) => format!("no program may open it: {why}"),
            None => format!(
                "no program may open it; `sudo crosslane device bind {address}` permits that"
            ),
        });
    }
    let name = DeviceName::Vfio(card.address);
    let said = |error: &dyn std::error::Error| error.to_string();
    let session = Session::open_all(&[name], SessionOptions::default());
    let session = session.map_err(|error| said(&error))?;
    let options = Options::default()
        .with_size_bytes(1 << 20)
        .with_iterations(TRANSFERS.into())
        .with_outstanding(TRANSFERS)
        .with_descriptors(DescriptorSource::Ring { entries: 4096 })
        .with_timeout(Duration::from_secs(10));
    let measuring = session.block_on(async {
        let device = session.device(0).await.map_err(|error| said(&error))?;
        let mut rates = Vec::new();
        for (what, measured) in [
            ("writes to host memory", write(&device, &options).await),
            ("reads of host memory", read(&device, &options).await),
        ] {
            let measured = measured.map_err(|error| said(&error))?;
            if measured.data_errors.words > 0 {
                let words = measured.data_errors.words;
                return Err(format!("{what}: {words} words of 4 B are not what was sent"));
            }
            rates.push(MeasuredRate {
                what: what.to_owned(),
                application_bytes_per_second: measured.application_bytes_per_second(),
                hardware_bytes_per_second: measured.hardware_bytes_per_second(),
            });
        }
        Ok(rates)
    });
    measuring.map_err(|error| said(&error))?
}
