//! Changes of variables in order of time, kept in an unnamed temporary file until the recording ends.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// The latest time of a wave in picoseconds: 106 days. Viewers store the time as a signed 64-bit number.
const LONGEST: u64 = i64::MAX as u64;

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An integer of this many bits: 1 to 64.
    Bits(u32),
    /// A number with a fraction; its changes are the bits of an `f64`.
    Real,
    /// An event, without a value.
    Event,
}

/// A variable of a track.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its scope within the track's scope; `None` for the track's own.
    pub scope: Option<String>,
    /// Its name in the scope.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    last: Option<u64>,
}

/// A change of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The time in picoseconds.
    pub time: u64,
    /// The variable's number in its track.
    pub variable: usize,
    /// Its new value.
    pub value: u64,
}

/// Variables and their changes so far.
#[derive(Debug)]
pub struct Track {
    file: BufWriter<File>,
    variables: Vec<Variable>,
    time: u64,
    /// The first error of writing, after which the track is incomplete.
    fault: Option<io::Error>,
}

impl Track {
    /// An empty track, whose temporary file is in this folder.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let file = BufWriter::new(tempfile::tempfile_in(folder)?);
        Ok(Self { file, variables: Vec::new(), time: 0, fault: None })
    }

    /// Adds a variable and returns its number.
    pub fn variable(&mut self, scope: Option<&str>, name: &str, kind: Kind) -> usize {
        self.variables.push(Variable { scope: scope.map(str::to_owned), name: name.to_owned(), kind, last: None });
        self.variables.len() - 1
    }

    /// Records that the variable holds `value` from `time` on, or from the time of the previous change if that is later. A
    /// value equal to the present one is not recorded, except for events.
    pub fn put(&mut self, time: u64, variable: usize, value: u64) {
        let Some(Variable { kind, last, .. }) = self.variables.get_mut(variable) else { return };
        if *kind != Kind::Event && last.replace(value) == Some(value) {
            return;
        }
        self.time = self.time.max(time);
        let words = [self.time, variable as u64, value].map(u64::to_le_bytes);
        let written = if self.time > LONGEST {
            Err(io::Error::other("the replay is longer than the 106 days that a wave can hold"))
        } else {
            self.file.write_all(words.as_flattened())
        };
        if let (Err(error), None) = (written, &self.fault) {
            self.fault = Some(error);
        }
    }

    /// Ends the track. Returns its variables, and its changes from the first on.
    ///
    /// # Errors
    /// A change could not be kept.
    pub fn finish(self) -> io::Result<(Vec<Variable>, Changes)> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok((self.variables, Changes(BufReader::new(file))))
    }
}

/// The changes of a track.
#[derive(Debug)]
pub struct Changes(BufReader<File>);

impl Changes {
    /// The next change; `None` after the last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Change>> {
        let mut words = [[0; 8]; 3];
        match self.0.read_exact(words.as_flattened_mut()) {
            Ok(()) => {
                let [time, variable, value] = words.map(u64::from_le_bytes);
                Ok(Some(Change { time, variable: variable as usize, value }))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}
