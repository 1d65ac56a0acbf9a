// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers of the kernel are read as specified and, whatever they hold, never beyond their end.

use super::*;

type Region = WithCapabilities<vfio::vfio_region_info>;

/// Size of a region in these tests.
const BYTES: u64 = 0x10000;

/// A region with these capabilities, the first directly after the structure.
fn region_with(capabilities: &[u8]) -> Region {
    let mut region = Region::new();
    region.head.size = BYTES;
    region.head.flags = vfio::VFIO_REGION_INFO_FLAG_MMAP | vfio::VFIO_REGION_INFO_FLAG_CAPS;
    region.head.cap_offset = size_of::<vfio::vfio_region_info>() as u32;
    let length = capabilities.len().min(CAPABILITY_BYTES);
    region.capabilities[..length].copy_from_slice(&capabilities[..length]);
    region
}

/// A capability: its number, the offset of the next, and the bytes after the header.
fn capability(id: u32, next: usize, body: &[u64]) -> Vec<u8> {
    let mut bytes = (id as u16).to_ne_bytes().to_vec();
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend((next as u32).to_ne_bytes());
    bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

#[test]
fn areas_that_can_be_mapped_are_found_behind_other_capabilities() {
    let head = size_of::<vfio::vfio_region_info>();
    let first = capability(vfio::VFIO_REGION_INFO_CAP_MSIX_MAPPABLE, head + 16, &[7]);
    let areas = [2, 0x8000, 0x8000, 0, 0x1000];
    let second = capability(vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP, 0, &areas);
    let region = region_with(&[first, second].concat());
    let info = described(&region).unwrap();
    assert_eq!(info.mappable, [(0, 0x1000), (0x8000, 0x8000)], "in order");
    assert!(info.has_msix_table);
    // Without the list all of it can be mapped, and without the flag none of it.
    let mut region = region_with(&capability(vfio::VFIO_REGION_INFO_CAP_MSIX_MAPPABLE, 0, &[]));
    let info = described(&region).unwrap();
    assert_eq!((info.mappable, info.has_msix_table), (vec![(0, BYTES)], true));
    assert!(!described(&region_with(&[])).unwrap().has_msix_table);
    region.head.flags = vfio::VFIO_REGION_INFO_FLAG_CAPS;
    assert_eq!(described(&region).unwrap().mappable, []);
}

#[test]
fn areas_that_cannot_be_are_refused() {
    let sparse = |areas: &[u64]| {
        let bytes = capability(vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP, 0, areas);
        described(&region_with(&bytes))
    };
    let overflow = Err(Errno::OVERFLOW);
    assert_eq!(sparse(&[1, BYTES, 0x1000]), overflow, "beyond the region");
    assert_eq!(sparse(&[1, u64::MAX, 2]), overflow, "beyond all numbers");
    assert_eq!(sparse(&[2, 0, 0x2000, 0x1000, 0x1000]), overflow, "one in the other");
    assert_eq!(sparse(&[u64::from(u32::MAX)]), overflow, "more than there are");
    assert_eq!(sparse(&[0]).unwrap().mappable, []);
}

#[test]
fn a_list_of_capabilities_that_turns_back_has_an_end() {
    let head = size_of::<vfio::vfio_region_info>();
    let region = region_with(&capability(9, head, &[]));
    assert_eq!(region.find(head as u32, 1), None);
    for offset in [0, head - 1, head + CAPABILITY_BYTES - 7, usize::MAX] {
        assert_eq!(region.find(offset as u32, 0), None, "{offset}");
    }
}

#[test]
fn fuzz_whatever_the_kernel_says_of_a_region() {
    bolero::check!().with_type::<(u32, u32, u64, Vec<u8>)>().with_iterations(2000).for_each(
        |(flags, offset, size, capabilities)| {
            let mut region = region_with(capabilities);
            region.head.flags |= flags;
            region.head.size = *size;
            // Near the beginning, where the capabilities lie.
            region.head.cap_offset = offset % 300;
            let Ok(info) = described(&region) else { return };
            let mut end = 0;
            for (first, bytes) in info.mappable {
                assert!(first >= end && bytes > 0);
                end = first.checked_add(bytes).unwrap();
            }
            assert!(end <= *size);
        },
    );
}
