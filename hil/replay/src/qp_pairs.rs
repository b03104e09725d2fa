//! Connected queue pairs that the user gives in a file (`--pairs`).

use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::net::IpAddr;

/// One end of a connection: an address and a queue pair number.
type Named = (IpAddr, u32);

/// The pairs of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QpPairs {
    /// Pairs with both addresses.
    named: Vec<(Named, Named)>,
    /// Pairs as a host prints them, without addresses: the host's address if the file gives it, the host's queue pair, and the
    /// remote queue pair.
    local: Vec<(Option<IpAddr>, u32, u32)>,
}

impl QpPairs {
    /// Reads the lines of a file:
    ///
    /// - `address QP address QP`: the two ends of a connection, QP numbers in decimal or in hexadecimal with the prefix 0x;
    /// - the output of `rdma resource show qp`: `lqpn` and `rqpn` of each line are read;
    /// - `address ADDR`: the following lines of `rdma` come from the host of this address;
    /// - an empty line, or a comment that begins with #.
    ///
    /// # Errors
    /// A line that is none of these, or no connection in any line.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let (mut found, mut host) = (Self::default(), None);
        // Editors on Windows begin a file with a byte order mark.
        for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let line = line.split('#').next().unwrap_or_default();
            found.line(line, &mut host).with_context(|| format!("{name}, line {number}"))?;
        }
        if found == Self::default() {
            bail!(
                "{name}: no connection: expected a line `address QP address QP`, or the output of `rdma resource show qp` \
                 from a time when the queue pairs are connected"
            );
        }
        Ok(found)
    }

    fn line(&mut self, line: &str, host: &mut Option<IpAddr>) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["address", address] => *host = Some(self::address(address)?),
            [one, qp, other, other_qp] if one.parse::<IpAddr>().is_ok() => {
                self.named.push(((address(one)?, self::qp(qp)?), (address(other)?, self::qp(other_qp)?)));
            }
            words if words.contains(&"lqpn") => {
                let value = |name: &str| {
                    let place = words.iter().position(|word| *word == name)?;
                    words.get(place + 1).copied()
                };
                // Datagram queue pairs, and those that are not connected yet, have no remote queue pair.
                if let (Some(local), Some(remote)) = (value("lqpn"), value("rqpn")) {
                    let (local, remote) = (qp(local)?, qp(remote)?);
                    if remote != 0 {
                        self.local.push((*host, local, remote));
                    }
                }
            }
            _ => bail!(
                "expected `address QP address QP`, a line of `rdma resource show qp`, or `address ADDR` before such \
                 lines, found {}",
                line.trim()
            ),
        }
        Ok(())
    }

    /// The pairs with both addresses, as host numbers and queue pairs. Hosts that the capture does not show are left out.
    pub(crate) fn resolved(&self, numbers: &HashMap<IpAddr, u16>) -> Vec<((u16, u32), (u16, u32))> {
        let number = |(address, qpn): Named| Some((*numbers.get(&address)?, qpn));
        self.named.iter().filter_map(|&(one, other)| Some((number(one)?, number(other)?))).collect()
    }

    /// The pairs without both addresses: the number of the first host if its address is given, and both queue pairs.
    pub(crate) fn by_number(&self, numbers: &HashMap<IpAddr, u16>) -> Vec<(Option<u16>, u32, u32)> {
        let host = |address: Option<IpAddr>| match address {
            None => Some(None),
            Some(address) => numbers.get(&address).map(|&number| Some(number)),
        };
        self.local.iter().filter_map(|&(address, local, remote)| Some((host(address)?, local, remote))).collect()
    }
}

fn address(word: &str) -> Result<IpAddr> {
    let address = word.parse::<IpAddr>().map_err(|_| anyhow::anyhow!("expected an address, found {word}"))?;
    Ok(address.to_canonical())
}

fn qp(word: &str) -> Result<u32> {
    let number = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    number
        .filter(|&number| number < 1 << 24)
        .with_context(|| format!("expected a queue pair number below 2^24, found {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_lines_are_read() {
        let text = "# pairs\n192.0.2.1 0x11 192.0.2.2 34\n\n\
                    link mlx5_0/1 lqpn 17 rqpn 35 type RC state RTS rq-psn 0 sq-psn 100 path-mig-state MIGRATED pid 12 comm x\n\
                    address 2001:db8::1 # the other host\n\
                    link mlx5_0/1 lqpn 1 type GSI state RTS\nlink mlx5_0/- lqpn 18 rqpn 36 type RC\n";
        let found = QpPairs::parse(text, "pairs").unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(found.named, [((ip("192.0.2.1"), 17), (ip("192.0.2.2"), 34))]);
        assert_eq!(found.local, [(None, 17, 35), (Some(ip("2001:db8::1")), 18, 36)]);
        for (text, place) in
            [("\n192.0.2.1 0x11 192.0.2.2", "line 2"), ("192.0.2.1 x 192.0.2.2 1", "line 1"), ("1 2 3 4", "line 1")]
        {
            assert!(format!("{:#}", QpPairs::parse(text, "pairs").unwrap_err()).contains(place), "{text}");
        }
    }
}
