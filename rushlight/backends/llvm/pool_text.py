"""The thread pool's code: LLVM IR with holes, which pool_ir.py fills (`<at name>`, `<pause>` ...).

Here are types, the pool's making and end, and what workers run; pool_caller.py has the rest.

[how a region is handed out] `counter` holds BIAS + the number of units not yet claimed. A thread
claims with one fetch-and-subtract; a result above BIAS is a valid claim, and says which unit. A
region ends when `done` equals its units, so the region's data stands still as long as a valid
claim of it is open. A late worker that claims from the *next* region has simply joined that one:
the data are read after the claim. No thread ever waits for a worker that claimed nothing.

[sleeping] A worker adds itself to `sleepers`, then looks at `counter` once more; the caller stores
`counter`, then looks at `sleepers`; both sequentially consistent, so one of them sees the other.
"""

WORKERS = """
%Launch = type { ptr, ptr, ptr, ptr, i64, i64, i64, i64 }
%Region = type { i64, i64, i64 }

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
<pause_declare>

define void @pool_init(ptr %pool) {
  <at mutex>
  <at cond>
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %cond, ptr null)
  <at counter>
  store atomic i64 <BIAS>, ptr %counter seq_cst, align 8
  ret void
}

define void @pool_stop(ptr %pool) {
  <at exit>
  <at mutex>
  <at cond>
  store atomic i64 1, ptr %exit seq_cst, align 8
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %cond)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define void @pause_many(i64 %n, ptr %word) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  <pause>
  %seen = load atomic i64, ptr %word acquire, align 8
  %more = load atomic i64, ptr %word acquire, align 8
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %n
  br i1 %again, label %loop, label %end
end:
  ret void
}

; Instances begin..end of one launch.
define internal void @call_launch(ptr %launch, i64 %begin, i64 %end, ptr %local, ptr %status)
    alwaysinline {
  %function = load ptr, ptr %launch
  %buffers.p = getelementptr %Launch, ptr %launch, i64 0, i32 1
  %ints.p = getelementptr %Launch, ptr %launch, i64 0, i32 2
  %scalars.p = getelementptr %Launch, ptr %launch, i64 0, i32 3
  %buffers = load ptr, ptr %buffers.p
  %ints = load ptr, ptr %ints.p
  %scalars = load ptr, ptr %scalars.p
  <call>
  ret void
}

; Claim units of whatever region is on, until none is left.
define internal void @work(ptr %pool, i64 %index) noinline {
entry:
  <at locals>
  <at counter>
  <at done>
  <at work_launches>
  <at work_count>
  <at work_units>
  <at work_status>
  br label %look
look:
  %seen = load atomic i64, ptr %counter acquire, align 8
  %some = icmp sgt i64 %seen, <BIAS>
  br i1 %some, label %claim, label %out
claim:
  %claimed = atomicrmw sub ptr %counter, i64 1 acq_rel
  %valid = icmp sgt i64 %claimed, <BIAS>
  br i1 %valid, label %valid.claim, label %out
valid.claim:
  %launches = load ptr, ptr %work_launches
  %count = load i64, ptr %work_count
  %units = load i64, ptr %work_units
  %status = load ptr, ptr %work_status
  ; Not before the claim: the caller may have grown the scratch since the last region.
  %local.list = load ptr, ptr %locals
  %local.p = getelementptr ptr, ptr %local.list, i64 %index
  %local = load ptr, ptr %local.p
  %left = sub i64 %claimed, <BIAS>
  %unit = sub i64 %units, %left
  br label %find
find:
  %at = phi i64 [ 0, %valid.claim ], [ %after, %is.later ]
  %after = add i64 %at, 1
  %has.after = icmp slt i64 %after, %count
  br i1 %has.after, label %look.after, label %found
look.after:
  %after.p = getelementptr %Launch, ptr %launches, i64 %after, i32 7
  %after.unit = load i64, ptr %after.p
  %later = icmp sle i64 %after.unit, %unit
  br i1 %later, label %is.later, label %found
is.later:
  br label %find
found:
  %launch = getelementptr %Launch, ptr %launches, i64 %at
  %first.p = getelementptr %Launch, ptr %launch, i64 0, i32 7
  %total.p = getelementptr %Launch, ptr %launch, i64 0, i32 4
  %grain.p = getelementptr %Launch, ptr %launch, i64 0, i32 5
  %first = load i64, ptr %first.p
  %total = load i64, ptr %total.p
  %grain = load i64, ptr %grain.p
  %offset = sub i64 %unit, %first
  %begin = mul i64 %offset, %grain
  %stop = add i64 %begin, %grain
  %over = icmp sgt i64 %stop, %total
  %end = select i1 %over, i64 %total, i64 %stop
  call void @call_launch(ptr %launch, i64 %begin, i64 %end, ptr %local, ptr %status)
  atomicrmw add ptr %done, i64 1 acq_rel
  br label %look
out:
  ret void
}

define void @worker_main(ptr %pool, i64 %index) {
entry:
  <at counter>
  <at exit>
  <at sleepers>
  <at mutex>
  <at cond>
  <at spins>
  br label %fresh
fresh:
  br label %look
look:
  %turn = phi i64 [ 0, %fresh ], [ %turn.next, %spin ]
  %seen = load atomic i64, ptr %counter acquire, align 8
  %some = icmp sgt i64 %seen, <BIAS>
  br i1 %some, label %join, label %idle
join:
  call void @work(ptr %pool, i64 %index)
  br label %fresh
idle:
  %leave = load atomic i64, ptr %exit acquire, align 8
  %home = icmp ne i64 %leave, 0
  br i1 %home, label %out, label %spin
spin:
  <pause>
  %turn.next = add i64 %turn, 1
  %limit = load i64, ptr %spins
  %more = icmp ult i64 %turn.next, %limit
  br i1 %more, label %look, label %sleep
sleep:
  call i32 @pthread_mutex_lock(ptr %mutex)
  atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %recheck
recheck:
  %seen2 = load atomic i64, ptr %counter seq_cst, align 8
  %some2 = icmp sgt i64 %seen2, <BIAS>
  %leave2 = load atomic i64, ptr %exit seq_cst, align 8
  %home2 = icmp ne i64 %leave2, 0
  %up = or i1 %some2, %home2
  br i1 %up, label %awake, label %wait
wait:
  call i32 @pthread_cond_wait(ptr %cond, ptr %mutex)
  br label %recheck
awake:
  atomicrmw sub ptr %sleepers, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %fresh
out:
  ret void
}
"""
