//! The source of a capture: a file, a pipe or memory. It can be read more than once.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::{CaptureError, Fault, Place, Reader, interrupt};

/// Interval at which the program checks for a signal while it waits for a pipe.
const LOOK: Duration = Duration::from_millis(50);

/// A capture that can be read more than once.
///
/// A pipe cannot be read twice, so its bytes are copied to a temporary file without a name, as large as the capture.
pub struct Source {
    name: String,
    size: Option<u64>,
    bytes: Bytes,
}

enum Bytes {
    /// A file, from this offset on.
    File(File, u64),
    Memory(Vec<u8>),
}

impl Source {
    /// A file, or standard input if `path` is `-`.
    ///
    /// # Errors
    /// It cannot be opened, or, if it is a pipe, read and kept.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        if path == Path::new("-") {
            let name = "standard input";
            // The file itself, because the standard library's buffered reader would read it in small pieces.
            let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
            return Self::of(file.map_err(|error| fault(name, Fault::Open(error)))?, name);
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| fault(&name, Fault::Open(error)))?;
        Self::of(file, &name)
    }

    fn of(mut file: File, name: &str) -> Result<Self, CaptureError> {
        let wrong = |error| fault(name, Fault::Read(error));
        let metadata = file.metadata().map_err(|error| fault(name, Fault::Open(error)))?;
        if metadata.is_file() {
            let start = file.stream_position().map_err(wrong)?;
            return Ok(Self { name: name.to_owned(), size: Some(metadata.len()), bytes: Bytes::File(file, start) });
        }
        let kept = keep(file).map_err(wrong)?;
        Ok(Self { name: name.to_owned(), size: None, bytes: Bytes::File(kept, 0) })
    }

    /// The bytes of a capture file; `name` is the name of the file in errors.
    pub fn memory(bytes: impl Into<Vec<u8>>, name: &str) -> Self {
        Self { name: name.to_owned(), size: None, bytes: Bytes::Memory(bytes.into()) }
    }

    /// Reads the capture from its start.
    ///
    /// # Errors
    /// It cannot be read, or its header is not that of a capture.
    pub fn reader(&mut self) -> Result<Reader<Box<dyn Read + Send + '_>>, CaptureError> {
        let bytes: Box<dyn Read + Send + '_> = match &mut self.bytes {
            Bytes::File(file, start) => {
                file.seek(SeekFrom::Start(*start)).map_err(|error| fault(&self.name, Fault::Read(error)))?;
                Box::new(&*file)
            }
            Bytes::Memory(bytes) => Box::new(bytes.as_slice()),
        };
        Reader::new(bytes, &self.name)
    }

    /// Reads the capture once.
    ///
    /// # Errors
    /// As for [`Source::reader`].
    pub fn into_reader(self) -> Result<Reader<Box<dyn Read + Send>>, CaptureError> {
        let wrong = |error| fault(&self.name, Fault::Read(error));
        let bytes: Box<dyn Read + Send> = match self.bytes {
            Bytes::File(mut file, start) => {
                file.seek(SeekFrom::Start(start)).map_err(wrong)?;
                Box::new(file)
            }
            Bytes::Memory(bytes) => Box::new(io::Cursor::new(bytes)),
        };
        Reader::new(bytes, &self.name)
    }

    /// The name of the capture in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size in bytes, if it is a file.
    pub fn size(&self) -> Option<u64> {
        self.size
    }
}

fn fault(name: &str, fault: Fault) -> CaptureError {
    CaptureError { file: name.to_owned(), place: Place::File, fault }
}

/// Copies a pipe to a temporary file, up to its end or until a signal stops the program. A separate thread reads, because a
/// signal does not interrupt a read that waits for the pipe's writer.
fn keep(mut pipe: File) -> io::Result<File> {
    let mut kept = tempfile::tempfile()?;
    let (sender, receiver) = mpsc::sync_channel::<io::Result<Vec<u8>>>(4);
    thread::spawn(move || {
        loop {
            let mut piece = vec![0; 256 << 10];
            let read = match pipe.read(&mut piece) {
                Ok(0) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read,
            };
            let ends = read.is_err();
            let sent = sender.send(read.map(|length| {
                piece.truncate(length);
                piece
            }));
            if ends || sent.is_err() {
                return;
            }
        }
    });
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(piece) => kept.write_all(&piece?)?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if interrupt::requested().is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(kept)
}
