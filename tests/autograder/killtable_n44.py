"""Wrong and right answers to lab n44."""

import math
import struct
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
from shardgrade.checkout import reference

from shardbook.labs.registry import TASKS
from shardbook.numbers.formats import Format
from shardbook.numbers.formats import round_to as engine_round
from shardbook.numbers.loss_scaling import LossScale
from shardbook.training.optimizers import Adam


def half_up(steps):
    return math.floor(steps + Fraction(1, 2))


def rounding(
    value,
    exponent_bits,
    mantissa_bits,
    *,
    to_int=round,
    flush=False,
    saturate=False,
    early=False,
    late=False,
    signed=True,
    first=lambda value: value,
):
    value = first(value)
    sign = math.copysign(1.0, value) if signed or value else 1.0
    bias = (1 << (exponent_bits - 1)) - 1
    x = abs(Fraction(value))
    if flush and x < Fraction(2) ** (1 - bias):
        return sign * 0.0
    exponent = 1 - bias
    while x >= Fraction(2) ** (exponent + 1):
        exponent += 1
    spacing = Fraction(2) ** (exponent - mantissa_bits)
    found = to_int(x / spacing) * spacing
    largest = (2 - Fraction(1, 1 << mantissa_bits)) * 2**bias
    beyond = x > largest if early else found > (2 * largest if late else largest)
    if beyond:
        return sign * (float(largest) if saturate else math.inf)
    if not signed and found == 0:
        return 0.0
    return sign * float(found)


def rounding_with(**mistakes):
    return lambda *arguments: rounding(*arguments, **mistakes)


def engine_rounding(value, exponent_bits, mantissa_bits):
    return engine_round(Format("mine", exponent_bits, mantissa_bits), value)


def fp16_only(value, exponent_bits, mantissa_bits):
    with np.errstate(over="ignore"):
        return float(np.float16(value))


def rounding_by_search(value, exponent_bits, mantissa_bits):
    """Bisects over all positive numbers of the format, in order."""
    bias, ulps = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits

    def number(code):
        field, m = divmod(code, ulps)
        if field == 0:
            return Fraction(m, ulps) * Fraction(2) ** (1 - bias)
        return (1 + Fraction(m, ulps)) * Fraction(2) ** (field - bias)

    x, top = abs(Fraction(value)), (2 * bias + 1) * ulps
    low, high = 0, top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if number(middle) <= x else (low, middle)
    below, above = x - number(low), number(high) - x
    code = low if below < above or (below == above and low % 2 == 0) else high
    return math.copysign(math.inf if code >= top else float(number(code)), value)


def rounding_in_decimal(value, exponent_bits, mantissa_bits, how=ROUND_HALF_EVEN):
    """Decimal's quantize, with digits enough to be exact."""
    if value == 0:
        return value
    bias = 2 ** (exponent_bits - 1) - 1
    exponent = max(math.frexp(value)[1] - 1, 1 - bias) - mantissa_bits
    with localcontext() as context:
        context.prec = 800
        spacing = Decimal(2) ** exponent
        steps = (Decimal(value) / spacing).quantize(Decimal(1), rounding=how)
        found = float(steps * spacing)
    if abs(found) >= 2.0 ** (bias + 1):
        found = math.inf
    return math.copysign(found, value)


def in_fp16(number):
    with np.errstate(over="ignore"):
        return float(np.float16(number))


def toward_zero(number):
    near = np.float16(number)
    if abs(float(near)) > abs(number):
        near = np.nextafter(near, np.float16(0))
    return float(near)


def adam(
    master,
    gradients,
    rate,
    beta1,
    beta2,
    epsilon,
    *,
    correct=True,
    keep=lambda weight: weight,
    working=in_fp16,
    inside=False,
    shown=lambda m, v, t, b1, b2: (m, v),
    last_only=False,
):
    weights = [keep(w) for w in master]
    m, v = [0.0] * len(weights), [0.0] * len(weights)
    for t, gradient in enumerate(gradients[-1:] if last_only else gradients, start=1):
        for i, g in enumerate(gradient):
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g * g
            c1, c2 = (1 - beta1**t, 1 - beta2**t) if correct else (1, 1)
            root = math.sqrt(v[i] / c2 + epsilon) if inside else math.sqrt(v[i] / c2) + epsilon
            weights[i] = keep(weights[i] - rate * (m[i] / c1) / root)
    m, v = shown(m, v, len(gradients), beta1, beta2)
    return {
        "weights": [working(w) for w in weights],
        "master_weights": weights,
        "momentum": m,
        "variance": v,
    }


def adam_with(**mistakes):
    return lambda *arguments: adam(*arguments, **mistakes)


def corrected(m, v, t, beta1, beta2):
    return [x / (1 - beta1**t) for x in m], [x / (1 - beta2**t) for x in v]


def adam_in_arrays(master, gradients, rate, beta1, beta2, epsilon):
    w = np.array(master)
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(np.array(gradients), start=1):
        m += (1 - beta1) * (g - m)
        v += (1 - beta2) * (g**2 - v)
        w -= rate / (1 - beta1**t) * m / (np.sqrt(v / (1 - beta2**t)) + epsilon)
    return {
        "momentum": m.tolist(),
        "variance": v.tolist(),
        "master_weights": w.tolist(),
        "weights": w.astype(np.float16).astype(float).tolist(),
    }


def adam_by_sums(master, gradients, rate, beta1, beta2, epsilon):
    """Each mean as one weighted sum over all gradients so far."""
    result = {"weights": [], "master_weights": [], "momentum": [], "variance": []}
    for i, weight in enumerate(master):
        m = v = 0.0
        for t in range(1, len(gradients) + 1):
            past = [gradient[i] for gradient in gradients[:t]]
            m = sum((1 - beta1) * beta1 ** (t - k - 1) * g for k, g in enumerate(past))
            v = sum((1 - beta2) * beta2 ** (t - k - 1) * g * g for k, g in enumerate(past))
            weight -= rate * m / (1 - beta1**t) / ((v / (1 - beta2**t)) ** 0.5 + epsilon)
        half = struct.unpack("<e", struct.pack("<e", weight))[0]
        for name, value in zip(result, (half, weight, m, v), strict=True):
            result[name].append(value)
    return result


def engine_adam(master, gradients, rate, beta1, beta2, epsilon):
    weights = np.array(master)
    states = [np.zeros_like(weights), np.zeros_like(weights)]
    for t, gradient in enumerate(gradients, start=1):
        Adam(rate, beta1, beta2, epsilon).update(t, weights, np.array(gradient), states)
    return {
        "weights": weights.astype(np.float16).astype(float).tolist(),
        "master_weights": weights.tolist(),
        "momentum": states[0].tolist(),
        "variance": states[1].tolist(),
    }


def scaling(
    gradients,
    scale,
    growth,
    backoff,
    interval,
    patience,
    *,
    fp16=in_fp16,
    unscale=True,
    scaled_first=True,
    overflows=lambda scaled: any(map(math.isinf, scaled)),
    halves=False,
    patient=True,
    patience_returns=False,
    grows=True,
    in_a_row=True,
    growth_heals=True,
    next_scale=False,
):
    results, good, left = [], 0, patience if patient else 1
    for gradient in gradients:
        before, after = (scale, 1.0) if scaled_first else (1.0, scale)
        scaled = [fp16(g * before) * after for g in gradient]
        used_scale, used = scale, [s / scale if unscale else s for s in scaled]
        if overflows(scaled):
            used = None
            left -= 1
            good = 0 if in_a_row else good
            if left <= 0:
                scale *= 0.5 if halves else backoff
                left = patience if patience_returns else left
        else:
            good += 1
            if grows and good == interval:
                scale, good = scale * growth, 0
                left = (patience if patient else 1) if growth_heals else left
        results.append((scale if next_scale else used_scale, used))
    return results


def scaling_with(**mistakes):
    return lambda *arguments: scaling(*arguments, **mistakes)


def scaling_by_history(gradients, scale, growth, backoff, interval, patience):
    """Remembers all steps since the scale last grew."""
    results, history = [], []
    for gradient in gradients:
        halves = np.array(gradient) * scale
        with np.errstate(over="ignore"):
            halves = halves.astype(np.float16)
        fine = bool(np.isfinite(halves).all())
        used = (halves.astype(float) / scale).tolist() if fine else None
        results.append([scale, used])
        history.append(fine)
        if history[-interval:] == [True] * interval:
            scale, history = scale * growth, []
        elif not fine and history.count(False) >= patience:
            scale = scale * backoff
    return results


def engine_scaling(gradients, scale, growth, backoff, interval, patience):
    state, results = LossScale(scale, growth, backoff, interval), []
    for gradient in gradients:
        scaled = [in_fp16(g * state.scale) for g in gradient]
        bad = any(map(math.isinf, scaled))
        results.append((state.scale, None if bad else [s / state.scale for s in scaled]))
        state = state.after(bad)
    return results


WRONG = {
    "n44.1": {
        "does nothing": lambda *arguments: None,
        "the value as it is": lambda value, exponent_bits, mantissa_bits: value,
        "answers the visible example": lambda *arguments: 1.25,
        "FP16 whatever is asked": fp16_only,
        "truncation": rounding_with(to_int=math.floor),
        "away from zero": rounding_with(to_int=math.ceil),
        "ties away from zero": rounding_with(to_int=half_up),
        "ties away, in decimal": lambda *a: rounding_in_decimal(*a, how=ROUND_HALF_UP),
        "twice, over float32": rounding_with(first=lambda value: float(np.float32(value))),
        "subnormals flushed": rounding_with(flush=True),
        "the largest number for overflow": rounding_with(saturate=True),
        "overflow right above the largest number": rounding_with(early=True),
        "one exponent too many": rounding_with(late=True),
        "zero without a sign": rounding_with(signed=False),
        "asks the engine": engine_rounding,
    },
    "n44.2": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: {"weights": [0.375]},
        "no bias correction": adam_with(correct=False),
        "master weights in FP16": adam_with(keep=in_fp16),
        "the last gradient only": adam_with(last_only=True),
        "epsilon inside the root": adam_with(inside=True),
        "corrected moments are kept": adam_with(shown=corrected),
        "moments swapped": adam_with(shown=lambda m, v, *rest: (v, m)),
        "working weights not rounded": adam_with(working=lambda weight: weight),
        "working weights truncated": adam_with(working=toward_zero),
        "asks the engine": engine_adam,
    },
    "n44.3": {
        "does nothing": lambda *arguments: None,
        "answers the visible example": lambda *arguments: [(1024.0, [0.5]), (1024.0, None)],
        "never scales": scaling_with(fp16=lambda g: g),
        "rounds before it scales": scaling_with(scaled_first=False, overflows=lambda s: None),
        "the scale stays in": scaling_with(unscale=False),
        "looks at the first element only": scaling_with(overflows=lambda s: math.isinf(s[0])),
        "skips if all overflow": scaling_with(overflows=lambda s: all(map(math.isinf, s))),
        "skips at the largest number": scaling_with(
            overflows=lambda s: any(abs(x) >= 65504 for x in s)
        ),
        "always halves": scaling_with(halves=True),
        "no patience": scaling_with(patient=False),
        "patience returns with every backoff": scaling_with(patience_returns=True),
        "never grows": scaling_with(grows=False),
        "good steps need not be in a row": scaling_with(in_a_row=False),
        "growth brings no patience": scaling_with(growth_heals=False),
        "tells the next step's scale": scaling_with(next_scale=True),
        "asks the engine": engine_scaling,
    },
}

RIGHT = {
    "n44.1": {
        "in fractions": rounding,
        "by search": rounding_by_search,
        "in decimal": rounding_in_decimal,
        "the reference": reference(TASKS["n44.1"]),
    },
    "n44.2": {
        "in arrays": adam_in_arrays,
        "by sums": adam_by_sums,
        "the reference": reference(TASKS["n44.2"]),
    },
    "n44.3": {
        "state by state": scaling,
        "from the history": scaling_by_history,
        "the reference": reference(TASKS["n44.3"]),
    },
}
