//! The descriptors of transfers: how every input is moved to the card, and every output back.

use super::superdsc::pretty_json;
use super::{EmittedFile, sanitize_name};
use crate::error::Result;
use crate::program::{BufferId, CompiledProgram};
use std::collections::HashSet;
use zellige_device::TensorLayout;
use zellige_layout::StridedLayout;
use zellige_stick::{PlannedTransfer, TransferDescriptor, TransferDirection};

/// A transfer of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct DciTransfer {
    /// The tensor.
    pub name: String,
    /// Its memory on the card.
    pub buffer: BufferId,
    /// Which way it goes.
    pub direction: TransferDirection,
    /// The file of the descriptor.
    pub file: String,
    /// The descriptor.
    pub descriptor: TransferDescriptor,
}

/// The transfers of a program: its inputs in order, then its outputs.
///
/// An output that is a view goes as the tensor that it is a view of; the host takes its part of that.
///
/// # Errors
/// Tensors that no plan moves.
pub fn list_transfers(program: &CompiledProgram) -> Result<Vec<DciTransfer>> {
    let mut all = Vec::new();
    for id in &program.inputs {
        let buffer = program.buffer(*id);
        all.push(describe_transfer(
            &buffer.name,
            *id,
            &buffer.laid,
            TransferDirection::HostToDevice,
            "in",
        )?);
    }
    for (tensor, read) in program.graph.outputs().iter().zip(&program.outputs) {
        let name = &program.graph.get(*tensor).name;
        all.push(describe_transfer(
            name,
            read.buffer,
            &read.laid,
            TransferDirection::DeviceToHost,
            "out",
        )?);
    }
    let mut taken = HashSet::new();
    for dci in &mut all {
        // Names that differ only in what a file may not have stay apart.
        let stem = dci.file.trim_end_matches(".json").to_string();
        let mut n = 1;
        while !taken.insert(dci.file.clone()) {
            n += 1;
            dci.file = format!("{stem}.{n}.json");
        }
    }
    Ok(all)
}

/// The files of all transfers.
///
/// # Errors
/// As [`list_transfers`].
pub fn write_dci_files(program: &CompiledProgram) -> Result<Vec<EmittedFile>> {
    let all = list_transfers(program)?;
    Ok(all
        .into_iter()
        .map(|t| EmittedFile { path: t.file.clone(), text: descriptor_text(&t.descriptor) })
        .collect())
}

fn descriptor_text(descriptor: &TransferDescriptor) -> String {
    pretty_json(&serde_json::to_value(descriptor).expect("a descriptor is JSON"))
}

fn describe_transfer(
    name: &str,
    buffer: BufferId,
    laid: &TensorLayout,
    direction: TransferDirection,
    way: &str,
) -> Result<DciTransfer> {
    // A descriptor transfers sticks, which hold the whole tensor; a view is taken by the host from what was
    // transferred.
    let whole = laid.base_layout();
    let host = StridedLayout::new_contiguous(whole.size())?;
    let transfer = PlannedTransfer::new(&host, laid.stick_layout(), laid.dtype(), direction)?;
    let file = format!("dci/{way}-{}.json", sanitize_name(name));
    let descriptor = transfer.build_descriptor(name)?;
    Ok(DciTransfer { name: name.into(), buffer, direction, file, descriptor })
}
