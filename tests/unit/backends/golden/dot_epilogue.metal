#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

// 0 for an index out of range, which is told to the host.
static inline long check_index(long index, long size, long site, device long *status)
{
    if (index >= 0 && index < size) return index;
    *status = site;
    return 0;
}

[[max_total_threads_per_threadgroup(64)]]
kernel void dot_dot_tanh_float32_0_g0(
    device const float *b0 [[buffer(0)]],
    device const float *b1 [[buffer(1)]],
    device float *b2 [[buffer(2)]],
    device const long *numbers [[buffer(3)]],
    device long *status [[buffer(4)]],
    uint group_position [[threadgroup_position_in_grid]],
    uint thread_position [[thread_position_in_threadgroup]])
{
    const long group_id = group_position;
    const long thread_id = thread_position;
    threadgroup float a_1[256];
    threadgroup float b_2[1024];
    threadgroup float out_3[1024];
    const long instance_id = group_id;
    const long d0 = (instance_id / 2);
    const long tile_row = (instance_id % 2);
    const long tile_column = 0;
    const long first_m = tile_row * 16;
    const long first_n = tile_column * 64;
    const long block_row = (thread_id / 16);
    const long block_column = (thread_id % 16);
    float acc_0_0 = 0.0f;
    float acc_0_1 = 0.0f;
    float acc_0_2 = 0.0f;
    float acc_0_3 = 0.0f;
    float acc_1_0 = 0.0f;
    float acc_1_1 = 0.0f;
    float acc_1_2 = 0.0f;
    float acc_1_3 = 0.0f;
    float acc_2_0 = 0.0f;
    float acc_2_1 = 0.0f;
    float acc_2_2 = 0.0f;
    float acc_2_3 = 0.0f;
    float acc_3_0 = 0.0f;
    float acc_3_1 = 0.0f;
    float acc_3_2 = 0.0f;
    float acc_3_3 = 0.0f;
    for (long first_k = 0; first_k < 9; first_k += 16) {
        for (long i_6 = thread_id; i_6 < 256; i_6 += 64) {
            const long i_4 = (i_6 / 16);
            const long j_5 = (i_6 % 16);
            const long d1 = first_m + i_4;
            const long k = first_k + j_5;
            if ((d1 < 17) & (k < 9)) {
                a_1[i_4 * 16 + j_5] = b0[d0 * 153 + d1 * 9 + k];
            }
        }
        for (long i_9 = thread_id; i_9 < 1024; i_9 += 64) {
            const long i_7 = (i_9 / 64);
            const long j_8 = (i_9 % 64);
            const long k = first_k + i_7;
            const long d2 = first_n + j_8;
            if ((k < 9) & (d2 < 20)) {
                b_2[i_7 * 64 + j_8] = b1[d0 * 180 + k * 20 + d2];
            }
        }
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        for (long k_i = 0; k_i < 9 - first_k; k_i++) {
            const float a_0_ = a_1[block_row * 64 + k_i];
            const float a_1_ = a_1[block_row * 64 + k_i + 16];
            const float a_2_ = a_1[block_row * 64 + k_i + 32];
            const float a_3_ = a_1[block_row * 64 + k_i + 48];
            const float b_0_ = b_2[k_i * 64 + block_column * 4];
            const float b_1_ = b_2[k_i * 64 + block_column * 4 + 1];
            const float b_2_ = b_2[k_i * 64 + block_column * 4 + 2];
            const float b_3_ = b_2[k_i * 64 + block_column * 4 + 3];
            acc_0_0 = fma(a_0_, b_0_, acc_0_0);
            acc_0_1 = fma(a_0_, b_1_, acc_0_1);
            acc_0_2 = fma(a_0_, b_2_, acc_0_2);
            acc_0_3 = fma(a_0_, b_3_, acc_0_3);
            acc_1_0 = fma(a_1_, b_0_, acc_1_0);
            acc_1_1 = fma(a_1_, b_1_, acc_1_1);
            acc_1_2 = fma(a_1_, b_2_, acc_1_2);
            acc_1_3 = fma(a_1_, b_3_, acc_1_3);
            acc_2_0 = fma(a_2_, b_0_, acc_2_0);
            acc_2_1 = fma(a_2_, b_1_, acc_2_1);
            acc_2_2 = fma(a_2_, b_2_, acc_2_2);
            acc_2_3 = fma(a_2_, b_3_, acc_2_3);
            acc_3_0 = fma(a_3_, b_0_, acc_3_0);
            acc_3_1 = fma(a_3_, b_1_, acc_3_1);
            acc_3_2 = fma(a_3_, b_2_, acc_3_2);
            acc_3_3 = fma(a_3_, b_3_, acc_3_3);
        }
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
    out_3[block_row * 256 + block_column * 4] = acc_0_0;
    out_3[block_row * 256 + block_column * 4 + 1] = acc_0_1;
    out_3[block_row * 256 + block_column * 4 + 2] = acc_0_2;
    out_3[block_row * 256 + block_column * 4 + 3] = acc_0_3;
    out_3[block_row * 256 + block_column * 4 + 64] = acc_1_0;
    out_3[block_row * 256 + block_column * 4 + 65] = acc_1_1;
    out_3[block_row * 256 + block_column * 4 + 66] = acc_1_2;
    out_3[block_row * 256 + block_column * 4 + 67] = acc_1_3;
    out_3[block_row * 256 + block_column * 4 + 128] = acc_2_0;
    out_3[block_row * 256 + block_column * 4 + 129] = acc_2_1;
    out_3[block_row * 256 + block_column * 4 + 130] = acc_2_2;
    out_3[block_row * 256 + block_column * 4 + 131] = acc_2_3;
    out_3[block_row * 256 + block_column * 4 + 192] = acc_3_0;
    out_3[block_row * 256 + block_column * 4 + 193] = acc_3_1;
    out_3[block_row * 256 + block_column * 4 + 194] = acc_3_2;
    out_3[block_row * 256 + block_column * 4 + 195] = acc_3_3;
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_12 = thread_id; i_12 < 1024; i_12 += 64) {
        const long i_10 = (i_12 / 64);
        const long j_11 = (i_12 % 64);
        const long d1 = first_m + i_10;
        const long d2 = first_n + j_11;
        if ((d1 < 17) & (d2 < 20)) {
            const float t_0 = out_3[i_10 * 64 + j_11];
            const float t_1 = fabs(t_0);
            const float t_2 = (t_1 > 10.0f) ? 10.0f : t_1;
            const float t_3 = t_2 + t_2;
            const float t_4 = fma(t_3, 1.442695f, 1.2583039e+07f);
            const float t_5 = as_type<float>(((int)((uint)as_type<int>(t_4) << (uint)23)));
            const float t_6 = t_4 - 1.2583039e+07f;
            const float t_7 = fma(t_6, 1.9046542e-09f, fma(t_6, (-0.6931472f), t_3));
            const float t_8 = fma(fma(fma(0.0013862775f, t_7, 0.008367152f), t_7, 0.041667532f), t_7, 0.16666539f);
            const float t_9 = fma(t_5, fma((t_7 * t_7), fma(t_8, t_7, 0.49999997f), t_7), (t_5 - 1.0f));
            const float t_10 = t_9 * 0.5f;
            const bool t_11 = t_10 < 0.5f;
            const float t_12 = fma((t_11 ? (-t_10) : 1.0f), (t_10 / (t_10 + 1.0f)), (t_11 ? t_10 : 0.0f));
            b2[d0 * 340 + d1 * 20 + d2] = as_type<float>((as_type<int>(t_12) | (as_type<int>(t_0) & (-2147483647 - 1))));
        }
    }
}
