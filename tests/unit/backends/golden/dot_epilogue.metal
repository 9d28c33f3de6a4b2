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

[[max_total_threads_per_threadgroup(128)]]
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
    threadgroup float a_1[1280];
    threadgroup float b_2[1088];
    threadgroup float out_3[4096];
    const long instance_id = group_id;
    const long d0 = instance_id;
    const long tile_row = 0;
    const long tile_column = 0;
    const long first_m = tile_row * 64;
    const long first_n = tile_column * 64;
    const long subgroup_id = (thread_id / 32);
    const long block_row = (subgroup_id / 2);
    const long block_column = (subgroup_id % 2);
    simdgroup_float8x8 acc_0_0 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_0_1 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_0_2 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_0_3 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_1_0 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_1_1 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_1_2 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_1_3 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_2_0 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_2_1 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_2_2 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_2_3 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_3_0 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_3_1 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_3_2 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    simdgroup_float8x8 acc_3_3 = make_filled_simdgroup_matrix<float, 8, 8>(float(0));
    for (long first_k = 0; first_k < 9; first_k += 16) {
        for (long i_6 = thread_id; i_6 < 1024; i_6 += 128) {
            const long i_4 = (i_6 / 16);
            const long j_5 = (i_6 % 16);
            const long d1 = first_m + i_4;
            const long k = first_k + j_5;
            a_1[i_4 * 20 + j_5] = 0.0f;
            if ((d1 < 17) & (k < 9)) {
                a_1[i_4 * 20 + j_5] = b0[d0 * 153 + d1 * 9 + k];
            }
        }
        for (long i_9 = thread_id; i_9 < 1024; i_9 += 128) {
            const long i_7 = (i_9 / 64);
            const long j_8 = (i_9 % 64);
            const long k = first_k + i_7;
            const long d2 = first_n + j_8;
            b_2[i_7 * 68 + j_8] = 0.0f;
            if ((k < 9) & (d2 < 20)) {
                b_2[i_7 * 68 + j_8] = b1[d0 * 180 + k * 20 + d2];
            }
        }
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        #pragma unroll
        for (long k_i = 0; k_i < 16; k_i += 8) {
            simdgroup_float8x8 a_0_;
            simdgroup_load(a_0_, IN_GROUP(float, a_1 + block_row * 640 + k_i), 20);
            simdgroup_float8x8 b_0_;
            simdgroup_load(b_0_, IN_GROUP(float, b_2 + k_i * 68 + block_column * 32), 68);
            simdgroup_float8x8 a_1_;
            simdgroup_load(a_1_, IN_GROUP(float, a_1 + block_row * 640 + k_i + 160), 20);
            simdgroup_float8x8 b_1_;
            simdgroup_load(b_1_, IN_GROUP(float, b_2 + k_i * 68 + block_column * 32 + 8), 68);
            simdgroup_float8x8 a_2_;
            simdgroup_load(a_2_, IN_GROUP(float, a_1 + block_row * 640 + k_i + 320), 20);
            simdgroup_float8x8 b_2_;
            simdgroup_load(b_2_, IN_GROUP(float, b_2 + k_i * 68 + block_column * 32 + 16), 68);
            simdgroup_float8x8 a_3_;
            simdgroup_load(a_3_, IN_GROUP(float, a_1 + block_row * 640 + k_i + 480), 20);
            simdgroup_float8x8 b_3_;
            simdgroup_load(b_3_, IN_GROUP(float, b_2 + k_i * 68 + block_column * 32 + 24), 68);
            simdgroup_multiply_accumulate(acc_0_0, a_0_, b_0_, acc_0_0);
            simdgroup_multiply_accumulate(acc_0_1, a_0_, b_1_, acc_0_1);
            simdgroup_multiply_accumulate(acc_0_2, a_0_, b_2_, acc_0_2);
            simdgroup_multiply_accumulate(acc_0_3, a_0_, b_3_, acc_0_3);
            simdgroup_multiply_accumulate(acc_1_0, a_1_, b_0_, acc_1_0);
            simdgroup_multiply_accumulate(acc_1_1, a_1_, b_1_, acc_1_1);
            simdgroup_multiply_accumulate(acc_1_2, a_1_, b_2_, acc_1_2);
            simdgroup_multiply_accumulate(acc_1_3, a_1_, b_3_, acc_1_3);
            simdgroup_multiply_accumulate(acc_2_0, a_2_, b_0_, acc_2_0);
            simdgroup_multiply_accumulate(acc_2_1, a_2_, b_1_, acc_2_1);
            simdgroup_multiply_accumulate(acc_2_2, a_2_, b_2_, acc_2_2);
            simdgroup_multiply_accumulate(acc_2_3, a_2_, b_3_, acc_2_3);
            simdgroup_multiply_accumulate(acc_3_0, a_3_, b_0_, acc_3_0);
            simdgroup_multiply_accumulate(acc_3_1, a_3_, b_1_, acc_3_1);
            simdgroup_multiply_accumulate(acc_3_2, a_3_, b_2_, acc_3_2);
            simdgroup_multiply_accumulate(acc_3_3, a_3_, b_3_, acc_3_3);
        }
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
    simdgroup_store(acc_0_0, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32), 64);
    simdgroup_store(acc_0_1, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 8), 64);
    simdgroup_store(acc_0_2, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 16), 64);
    simdgroup_store(acc_0_3, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 24), 64);
    simdgroup_store(acc_1_0, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 512), 64);
    simdgroup_store(acc_1_1, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 520), 64);
    simdgroup_store(acc_1_2, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 528), 64);
    simdgroup_store(acc_1_3, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 536), 64);
    simdgroup_store(acc_2_0, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1024), 64);
    simdgroup_store(acc_2_1, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1032), 64);
    simdgroup_store(acc_2_2, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1040), 64);
    simdgroup_store(acc_2_3, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1048), 64);
    simdgroup_store(acc_3_0, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1536), 64);
    simdgroup_store(acc_3_1, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1544), 64);
    simdgroup_store(acc_3_2, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1552), 64);
    simdgroup_store(acc_3_3, IN_GROUP(float, out_3 + block_row * 2048 + block_column * 32 + 1560), 64);
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    for (long i_12 = thread_id; i_12 < 4096; i_12 += 128) {
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
