#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#ifndef IN_GROUP
#define IN_GROUP(kind, place) ((threadgroup kind *)(place))
#endif

// 0 for an index out of range, which is told to the host.
static inline long check_index(long index, long size, long site, device long *status)
{
    if (index >= 0 && index < size) return index;
    *status = site;
    return 0;
}

static inline long index_min(long a, long b) {
    return (a < b) ? a : b;
}

static inline long index_max(long a, long b) {
    return (a > b) ? a : b;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void sort_argsort_int64_0_g0_runs(
    device const long *b0 [[buffer(0)]],
    device const long *b1 [[buffer(1)]],
    device float *sort_argsort_int64_0_g0_keys [[buffer(2)]],
    device long *sort_argsort_int64_0_g0_places [[buffer(3)]],
    device const long *numbers [[buffer(4)]],
    device long *status [[buffer(5)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long group_id = group_position;
    const long thread_id = thread_position;
    const long instance_id = group_id;
    for (long item_i = thread_id; item_i < 15 - instance_id * 256; item_i += 256) {
        const long item_id = instance_id * 256 + item_i;
        const long row_id = (item_id / 3);
        const long run_id = (item_id % 3);
        const long d0 = row_id;
        for (long d1 = run_id * 16; d1 < index_min(40, run_id * 16 + 16); d1++) {
            const float new_key = (float)b0[d0 * 40 + d1];
            long at_place = d1;
            while (true) {
                const bool t_0 = at_place > (run_id * 16);
                const float t_1 = t_0 ? sort_argsort_int64_0_g0_keys[row_id * 40 + at_place - 1] : new_key;
                if (!(t_0 & ((new_key < t_1) | ((t_1 != t_1) & (!(new_key != new_key)))))) {
                    break;
                }
                const float t_2 = sort_argsort_int64_0_g0_keys[row_id * 40 + at_place - 1];
                const long t_3 = sort_argsort_int64_0_g0_places[row_id * 40 + at_place - 1];
                sort_argsort_int64_0_g0_keys[row_id * 40 + at_place] = t_2;
                sort_argsort_int64_0_g0_places[row_id * 40 + at_place] = t_3;
                at_place = (long)((ulong)at_place - (ulong)1L);
            }
            const long t_4 = d1;
            sort_argsort_int64_0_g0_keys[row_id * 40 + at_place] = new_key;
            sort_argsort_int64_0_g0_places[row_id * 40 + at_place] = t_4;
        }
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void sort_argsort_int64_0_g0_merge(
    device const long *b0 [[buffer(0)]],
    device const long *b1 [[buffer(1)]],
    device float *sort_argsort_int64_0_g0_keys [[buffer(2)]],
    device long *sort_argsort_int64_0_g0_places [[buffer(3)]],
    device const long *numbers [[buffer(4)]],
    device long *status [[buffer(5)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long pass_turn = numbers[0];
    const long run_width = numbers[1];
    const long group_id = group_position;
    const long thread_id = thread_position;
    const long instance_id = group_id;
    for (long item_i = thread_id; item_i < 10 - instance_id * 256; item_i += 256) {
        const long item_id = instance_id * 256 + item_i;
        const long row_id = (item_id / 2);
        const long piece_id = (item_id % 2);
        const long first_out = piece_id * 32;
        const long source_at = (pass_turn % 2) * 200 + row_id * 40;
        const long goal_at = ((pass_turn + 1) % 2) * 200 + row_id * 40;
        const long pair_start = (first_out / (run_width * 2)) * run_width * 2;
        const long pair_middle = index_min(pair_start + run_width, 40);
        const long pair_end = index_min(run_width * 2 + pair_start, 40);
        long taken_left = index_max(0, first_out + pair_middle - pair_end - pair_start);
        long left_high = index_min(first_out - pair_start, pair_middle - pair_start);
        while (taken_left < left_high) {
            const long left_guess = ((long)((ulong)taken_left + (ulong)left_high)) / 2L;
            const float t_0 = sort_argsort_int64_0_g0_keys[first_out + pair_middle + source_at - pair_start - left_guess - 1];
            const float t_1 = sort_argsort_int64_0_g0_keys[pair_start + source_at + left_guess];
            const bool is_out = (t_0 < t_1) | ((t_1 != t_1) & (!(t_0 != t_0)));
            const long t_2 = is_out ? left_guess : left_high;
            const long t_3 = is_out ? taken_left : ((long)((ulong)left_guess + (ulong)1L));
            left_high = t_2;
            taken_left = t_3;
        }
        long left_at = (long)((ulong)taken_left + (ulong)pair_start);
        long right_at = (long)((ulong)(first_out + pair_middle - pair_start) - (ulong)taken_left);
        for (long out_at = first_out; out_at < index_min(40, first_out + 32); out_at++) {
            const bool t_4 = left_at < pair_middle;
            const bool t_5 = right_at < pair_end;
            const float t_6 = t_5 ? sort_argsort_int64_0_g0_keys[source_at + right_at] : 0.0f;
            const float t_7 = t_4 ? sort_argsort_int64_0_g0_keys[source_at + left_at] : 0.0f;
            const bool from_left = t_4 & ((!t_5) | (!((t_6 < t_7) | ((t_7 != t_7) & (!(t_6 != t_6))))));
            const long t_8 = from_left ? left_at : right_at;
            const float t_9 = sort_argsort_int64_0_g0_keys[source_at + t_8];
            const long t_10 = sort_argsort_int64_0_g0_places[source_at + t_8];
            sort_argsort_int64_0_g0_keys[goal_at + out_at] = t_9;
            sort_argsort_int64_0_g0_places[goal_at + out_at] = t_10;
            const long t_11 = (long)((ulong)left_at + (ulong)(long)from_left);
            const long t_12 = (long)((ulong)right_at + (ulong)(long)(!from_left));
            left_at = t_11;
            right_at = t_12;
        }
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void sort_argsort_int64_0_g0_write(
    device const long *b0 [[buffer(0)]],
    device long *b1 [[buffer(1)]],
    device const float *sort_argsort_int64_0_g0_keys [[buffer(2)]],
    device const long *sort_argsort_int64_0_g0_places [[buffer(3)]],
    device const long *numbers [[buffer(4)]],
    device long *status [[buffer(5)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long pass_turns = numbers[2];
    const long group_id = group_position;
    const long thread_id = thread_position;
    const long instance_id = group_id;
    for (long item_i = thread_id; item_i < 200 - instance_id * 256; item_i += 256) {
        const long item_id = instance_id * 256 + item_i;
        const long d0 = (item_id / 40);
        const long d1 = (item_id % 40);
        b1[d0 * 40 + d1] = sort_argsort_int64_0_g0_places[(pass_turns % 2) * 200 + item_id];
    }
}
