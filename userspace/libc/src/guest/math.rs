//! C's mathematics, which `std` leaves to the platform if the processor has no instruction for it.

use core::ffi::c_int;

macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty),* $(,)?) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $kind),*) -> $result {
                libm::$name($($argument),*)
            }
        )*
    };
}

/// Functions of one number, in both precisions.
macro_rules! of_one {
    ($($double:ident $single:ident),* $(,)?) => {
        functions!($($double(x: f64) -> f64, $single(x: f32) -> f32),*);
    };
}

/// Functions of two numbers, in both precisions.
macro_rules! of_two {
    ($($double:ident $single:ident),* $(,)?) => {
        functions!($($double(x: f64, y: f64) -> f64, $single(x: f32, y: f32) -> f32),*);
    };
}

of_one!(
    acos acosf, acosh acoshf, asin asinf, asinh asinhf, atan atanf, atanh atanhf, cbrt cbrtf, ceil ceilf, cos cosf,
    cosh coshf, erf erff, erfc erfcf, exp expf, exp2 exp2f, exp10 exp10f, expm1 expm1f, fabs fabsf, floor floorf,
    lgamma lgammaf, log logf, log10 log10f, log1p log1pf, log2 log2f, rint rintf, round roundf,
    roundeven roundevenf, sin sinf, sinh sinhf, sqrt sqrtf, tan tanf, tanh tanhf, tgamma tgammaf, trunc truncf,
);
of_two!(
    atan2 atan2f, copysign copysignf, fdim fdimf, fmax fmaxf, fmin fminf, fmod fmodf, hypot hypotf,
    nextafter nextafterf, pow powf, remainder remainderf,
);
functions!(
    fma(x: f64, y: f64, z: f64) -> f64,
    fmaf(x: f32, y: f32, z: f32) -> f32,
    ldexp(x: f64, exponent: c_int) -> f64,
    ldexpf(x: f32, exponent: c_int) -> f32,
    scalbn(x: f64, exponent: c_int) -> f64,
    scalbnf(x: f32, exponent: c_int) -> f32,
);

/// Rounding is always to the nearest.
#[unsafe(no_mangle)]
extern "C" fn nearbyint(x: f64) -> f64 {
    libm::rint(x)
}

/// Rounding is always to the nearest.
#[unsafe(no_mangle)]
extern "C" fn nearbyintf(x: f32) -> f32 {
    libm::rintf(x)
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn lgamma_r(x: f64, sign: *mut c_int) -> f64 {
    let (value, found) = libm::lgamma_r(x);
    // SAFETY: the caller's place for the sign.
    unsafe { sign.write(found) };
    value
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn lgammaf_r(x: f32, sign: *mut c_int) -> f32 {
    let (value, found) = libm::lgammaf_r(x);
    // SAFETY: the caller's place for the sign.
    unsafe { sign.write(found) };
    value
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sincos(x: f64, sin: *mut f64, cos: *mut f64) {
    let both = libm::sincos(x);
    // SAFETY: the caller's places for the answers.
    unsafe {
        sin.write(both.0);
        cos.write(both.1);
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sincosf(x: f32, sin: *mut f32, cos: *mut f32) {
    let both = libm::sincosf(x);
    // SAFETY: the caller's places for the answers.
    unsafe {
        sin.write(both.0);
        cos.write(both.1);
    }
}
