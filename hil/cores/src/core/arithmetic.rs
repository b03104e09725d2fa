//! Arithmetic, loads, stores and branches, shared by all core models. Each model adds its cycle costs, and the instructions
//! that only it has.

/// The value that an instruction computes from its sources `$a` and `$b`, and its cost, by kind of instruction: an expression
/// for arithmetic, for shifts (which may look at the amount), multiplication, its high half, and division (which may look at
/// `$b`). Loads, stores and branches go to the core's own `load!`, `store!` and `branch!`, for an instruction in front of
/// `$next`. The remaining arms are the core's own.
macro_rules! by_kind {
    (
        $op:ident, $next:ident, $a:ident, $b:ident,
        arithmetic: $alu:expr, shift by $amount:ident: $shift:expr, mul: $mul:expr, mulh: $mulh:expr, div: $div:expr,
        $($kinds:pat => $outcome:expr),* $(,)?
    ) => {
        match $op.kind {
            Kind::Constant => ($op.immediate, $alu),
            Kind::Addi => ($a.wrapping_add($op.immediate), $alu),
            Kind::Slti => (u32::from(($a as i32) < $op.immediate as i32), $alu),
            Kind::Sltiu => (u32::from($a < $op.immediate), $alu),
            Kind::Xori => ($a ^ $op.immediate, $alu),
            Kind::Ori => ($a | $op.immediate, $alu),
            Kind::Andi => ($a & $op.immediate, $alu),
            Kind::Slli => {
                let $amount = $op.immediate & 31;
                ($a << $amount, $shift)
            }
            Kind::Srli => {
                let $amount = $op.immediate & 31;
                ($a >> $amount, $shift)
            }
            Kind::Srai => {
                let $amount = $op.immediate & 31;
                ((($a as i32) >> $amount) as u32, $shift)
            }
            Kind::Add => ($a.wrapping_add($b), $alu),
            Kind::Sub => ($a.wrapping_sub($b), $alu),
            Kind::Sll => {
                let $amount = $b & 31;
                ($a << $amount, $shift)
            }
            Kind::Slt => (u32::from(($a as i32) < $b as i32), $alu),
            Kind::Sltu => (u32::from($a < $b), $alu),
            Kind::Xor => ($a ^ $b, $alu),
            Kind::Srl => {
                let $amount = $b & 31;
                ($a >> $amount, $shift)
            }
            Kind::Sra => {
                let $amount = $b & 31;
                ((($a as i32) >> $amount) as u32, $shift)
            }
            Kind::Or => ($a | $b, $alu),
            Kind::And => ($a & $b, $alu),
            Kind::Mul => ($a.wrapping_mul($b), $mul),
            Kind::Mulh => (((i64::from($a as i32) * i64::from($b as i32)) >> 32) as u32, $mulh),
            Kind::Mulhsu => (((i64::from($a as i32) * i64::from($b)) >> 32) as u32, $mulh),
            Kind::Mulhu => (((u64::from($a) * u64::from($b)) >> 32) as u32, $mulh),
            // Results of division by zero and of overflow: volume I, chapter "M", table "Semantics for division".
            Kind::Div => (if $b == 0 { u32::MAX } else { ($a as i32).wrapping_div($b as i32) as u32 }, $div),
            Kind::Divu => ($a.checked_div($b).unwrap_or(u32::MAX), $div),
            Kind::Rem => (if $b == 0 { $a } else { ($a as i32).wrapping_rem($b as i32) as u32 }, $div),
            Kind::Remu => ($a.checked_rem($b).unwrap_or($a), $div),
            Kind::Lb => load!(i8, 1, $a, $op, $next),
            Kind::Lh => load!(i16, 2, $a, $op, $next),
            Kind::Lw => load!(u32, 4, $a, $op, $next),
            Kind::Lbu => load!(u8, 1, $a, $op, $next),
            Kind::Lhu => load!(u16, 2, $a, $op, $next),
            Kind::Sb => store!(u8, 1, $a, $b, $op, $next),
            Kind::Sh => store!(u16, 2, $a, $b, $op, $next),
            Kind::Sw => store!(u32, 4, $a, $b, $op, $next),
            Kind::Beq => branch!($a == $b, $op, $next),
            Kind::Bne => branch!($a != $b, $op, $next),
            Kind::Blt => branch!(($a as i32) < $b as i32, $op, $next),
            Kind::Bge => branch!($a as i32 >= $b as i32, $op, $next),
            Kind::Bltu => branch!($a < $b, $op, $next),
            Kind::Bgeu => branch!($a >= $b, $op, $next),
            $($kinds => $outcome),*
        }
    };
}

pub(super) use by_kind;
