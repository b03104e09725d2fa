//! Parameters by number, for reaction points and notification points.

use crate::types::{Setting, Status, Text, put, shared, usable};
use cc_core::params::{Field, ParamError, Preset, Settings};

/// Description of a parameter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Param {
    /// The operators' name of it.
    pub name: Text,
    /// Its unit; empty for a plain number.
    pub unit: Text,
    /// Its effect.
    pub text: Text,
    /// The smallest value.
    pub min: u32,
    /// The largest.
    pub max: u32,
    /// Its value in the first preset.
    pub default: u32,
}

/// Writes the description of a parameter.
///
/// # Safety
/// Unless it is null or misaligned, `info` points to room for one.
pub(crate) unsafe fn describe<S: Settings>(presets: &[Preset<S>], id: u32, info: *mut Param) -> Result<(), Status> {
    let (field, preset) = S::FIELDS.get(id as usize).zip(presets.first()).ok_or(Status::UnknownId)?;
    let Field { name, unit, doc, min, max, .. } = field;
    let (name, unit, text) = (Text::new(name), Text::new(unit.symbol()), Text::new(doc));
    let info_of = Param { name, unit, text, min: *min, max: *max, default: preset.values.get(id as usize) };
    // SAFETY: the caller guarantees the room.
    unsafe { put(info, info_of) }
}

/// Writes a parameter's value.
///
/// # Safety
/// Unless it is null or misaligned, `value` points to room for one.
pub(crate) unsafe fn get<S: Settings>(settings: &S, id: u32, value: *mut u32) -> Result<(), Status> {
    if id as usize >= S::FIELDS.len() {
        return Err(Status::UnknownId);
    }
    // SAFETY: the caller guarantees the room.
    unsafe { put(value, settings.get(id as usize)) }
}

/// Changes settings by a list of values. Returns them with the parameters that `check` derives from them. On error, writes the
/// number of the wrong parameter to `fault`.
///
/// # Safety
/// Unless null or misaligned, `list` points to `count` settings and `fault` to room for a number.
pub(crate) unsafe fn changed<S: Settings, P>(
    mut settings: S,
    list: *const Setting,
    count: usize,
    fault: *mut u32,
    check: impl FnOnce(&S) -> Result<P, ParamError>,
) -> Result<(S, P), Status> {
    let blame = |id: usize, status: Status| {
        if !fault.is_null() {
            // SAFETY: the caller guarantees the room; if it is misaligned, `put` writes nothing.
            let _ = unsafe { put(fault, id as u32) };
        }
        status
    };
    if count > 0 {
        usable(list)?;
    }
    for nth in 0..count {
        // SAFETY: the list is `count` long, and aligned.
        let Setting { id, value } = *unsafe { shared(list.wrapping_add(nth)) }?;
        settings.set(id as usize, value).map_err(|error| blame(id as usize, status_of(&error)))?;
    }
    match check(&settings) {
        Ok(params) => Ok((settings, params)),
        Err(error) => {
            let name = match error {
                ParamError::Conflict { field, .. } => field,
                ParamError::OutOfRange(field) => field.name,
                ParamError::Unknown => "",
            };
            let id = S::FIELDS.iter().position(|field| field.name == name).unwrap_or(S::FIELDS.len());
            Err(blame(id, status_of(&error)))
        }
    }
}

/// The status for a parameter's error.
pub(crate) fn status_of(error: &ParamError) -> Status {
    match error {
        ParamError::Unknown => Status::UnknownId,
        ParamError::OutOfRange(_) => Status::OutOfRange,
        ParamError::Conflict { .. } => Status::Conflict,
    }
}
