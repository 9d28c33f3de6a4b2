"""The caller's half of the pool's code: a plan's regions, shared out or run alone, in parts.

LLVM IR with holes like pool_text.py, which has what workers run.

[parts] The code comes back to Python when `budget` is used up, so that a pending Ctrl-C is seen:
after a region, or after a part of a long one. `ready`, a word of the region's table, says how many
units are done; a part ends when all its units are, so nobody works while Python runs.
"""

CALLER = """
; Units start..stop of a region, on this thread.
define internal void @run_alone(ptr %launches, i64 %count, i64 %start, i64 %stop, ptr %local,
                                ptr %status) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %go = icmp slt i64 %i, %count
  br i1 %go, label %body, label %out
body:
  %launch = getelementptr %Launch, ptr %launches, i64 %i
  %total.p = getelementptr %Launch, ptr %launch, i64 0, i32 4
  %grain.p = getelementptr %Launch, ptr %launch, i64 0, i32 5
  %first.p = getelementptr %Launch, ptr %launch, i64 0, i32 7
  %total = load i64, ptr %total.p
  %grain = load i64, ptr %grain.p
  %first = load i64, ptr %first.p
  %from = sub i64 %start, %first
  %inside = icmp sgt i64 %from, 0
  %from.unit = select i1 %inside, i64 %from, i64 0
  %begin = mul i64 %from.unit, %grain
  %to = sub i64 %stop, %first
  %to.instance = mul i64 %to, %grain
  %over = icmp sgt i64 %to.instance, %total
  %end = select i1 %over, i64 %total, i64 %to.instance
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %call, label %step
call:
  call void @call_launch(ptr %launch, i64 %begin, i64 %end, ptr %local, ptr %status)
  br label %step
step:
  %next = add i64 %i, 1
  br label %loop
out:
  ret void
}

; Publish units start..stop of a region, take part in them, wait until all are done.
define internal void @run_shared(ptr %pool, ptr %launches, i64 %count, i64 %start, i64 %stop,
                                 ptr %status) {
entry:
  <at counter>
  <at done>
  <at sleepers>
  <at mutex>
  <at cond>
  <at spins>
  <at work_launches>
  <at work_count>
  <at work_units>
  <at work_status>
  store ptr %launches, ptr %work_launches
  store i64 %count, ptr %work_count
  store i64 %stop, ptr %work_units
  store ptr %status, ptr %work_status
  store atomic i64 0, ptr %done monotonic, align 8
  %units = sub i64 %stop, %start
  %open = add i64 %units, <BIAS>
  store atomic i64 %open, ptr %counter seq_cst, align 8
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %wake, label %join
wake:
  call void @place_workers(ptr %pool)
  ; Holding the mutex once means every sleeper has either seen the counter or is waiting.
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  %helpers = sub i64 %units, 1
  %fewer = icmp slt i64 %helpers, %asleep
  %signals = select i1 %fewer, i64 %helpers, i64 %asleep
  br label %signal
signal:
  %sent = phi i64 [ 0, %wake ], [ %sent.next, %signal ]
  call i32 @pthread_cond_signal(ptr %cond)
  %sent.next = add i64 %sent, 1
  %more.signals = icmp slt i64 %sent.next, %signals
  br i1 %more.signals, label %signal, label %join
join:
  call void @work(ptr %pool, i64 0)
  %limit = load i64, ptr %spins
  br label %wait
wait:
  %turn = phi i64 [ 0, %join ], [ %turn.next, %spin ], [ %turn.next, %yield ]
  %finished = load atomic i64, ptr %done acquire, align 8
  %all = icmp eq i64 %finished, %units
  br i1 %all, label %out, label %idle
idle:
  %turn.next = add i64 %turn, 1
  %patient = icmp ult i64 %turn.next, %limit
  br i1 %patient, label %spin, label %yield
spin:
  <pause>
  br label %wait
yield:
  call i32 @sched_yield()
  br label %wait
out:
  ret void
}

define internal i64 @now_ns(ptr %clock) {
  call i32 @clock_gettime(i32 <CLOCK>, ptr %clock)
  %seconds = load i64, ptr %clock
  %ns.p = getelementptr i64, ptr %clock, i64 1
  %ns = load i64, ptr %ns.p
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %ns
  ret i64 %now
}

; Regions first, first + 1, ... until n, an error, or until budget_ns have passed and a region, or a
; part of a long one, is done. A region of more work than %slice (ps) for each thread is done in
; parts; its third word says how many units of it are done. pool null: on this thread only. A region
; of less work than %limit (ps) is not shared. Returns the region to go on with.
define i64 @run_plan(ptr %pool, ptr %regions, ptr %launches, i64 %first, i64 %n, ptr %status,
                     ptr %local, i64 %budget, i64 %limit, i64 %slice) {
entry:
  %clock = alloca [2 x i64], align 8
  %alone = icmp eq ptr %pool, null
  %start = call i64 @now_ns(ptr %clock)
  %deadline = add i64 %start, %budget
  br i1 %alone, label %one.thread, label %many.threads
many.threads:
  <at threads>
  %pool.threads = load i64, ptr %threads
  br label %one.thread
one.thread:
  %hands = phi i64 [ 1, %entry ], [ %pool.threads, %many.threads ]
  %part.cost = mul i64 %slice, %hands
  %part.least = shl i64 %hands, 1
  br label %loop
loop:
  %r = phi i64 [ %first, %one.thread ], [ %r.next, %region.done ]
  %go = icmp slt i64 %r, %n
  br i1 %go, label %body, label %out
body:
  %region = getelementptr %Region, ptr %regions, i64 %r
  %at = load i64, ptr %region
  %count.p = getelementptr %Region, ptr %region, i64 0, i32 1
  %count = load i64, ptr %count.p
  %ready.p = getelementptr %Region, ptr %region, i64 0, i32 2
  %ready = load i64, ptr %ready.p
  %mine = getelementptr %Launch, ptr %launches, i64 %at
  br label %measure
measure:
  %i = phi i64 [ 0, %body ], [ %i.next, %measure.step ]
  %units = phi i64 [ 0, %body ], [ %units.next, %measure.step ]
  %cost = phi i64 [ 0, %body ], [ %cost.next, %measure.step ]
  %measuring = icmp slt i64 %i, %count
  br i1 %measuring, label %measure.step, label %decide
measure.step:
  %launch = getelementptr %Launch, ptr %mine, i64 %i
  %total.p = getelementptr %Launch, ptr %launch, i64 0, i32 4
  %grain.p = getelementptr %Launch, ptr %launch, i64 0, i32 5
  %cost.p = getelementptr %Launch, ptr %launch, i64 0, i32 6
  %unit.p = getelementptr %Launch, ptr %launch, i64 0, i32 7
  %total.raw = load i64, ptr %total.p
  %grain = load i64, ptr %grain.p
  %each = load i64, ptr %cost.p
  store i64 %units, ptr %unit.p
  %some = icmp sgt i64 %total.raw, 0
  %total = select i1 %some, i64 %total.raw, i64 0
  %padded = add i64 %total, %grain
  %padded.1 = sub i64 %padded, 1
  %these = sdiv i64 %padded.1, %grain
  %units.next = add i64 %units, %these
  %this.cost = mul i64 %total, %each
  %cost.next = add i64 %cost, %this.cost
  %i.next = add i64 %i, 1
  br label %measure
decide:
  %worth = icmp sge i64 %cost, %limit
  %many = icmp sgt i64 %units, 1
  %worth.many = and i1 %worth, %many
  %hired = xor i1 %alone, true
  %share = and i1 %worth.many, %hired
  ; In one part, unless the work is long: then so many units that they are not.
  %long = icmp sgt i64 %cost, %part.cost
  br i1 %long, label %cut, label %parts
cut:
  %unit.cost = udiv i64 %cost, %units
  %unit.some = icmp ugt i64 %unit.cost, 0
  %unit.positive = select i1 %unit.some, i64 %unit.cost, i64 1
  %fitting = udiv i64 %part.cost, %unit.positive
  %enough = icmp sgt i64 %fitting, %part.least
  %part.units = select i1 %enough, i64 %fitting, i64 %part.least
  br label %parts
parts:
  %step = phi i64 [ %units, %decide ], [ %part.units, %cut ]
  br label %part
part:
  %from = phi i64 [ %ready, %parts ], [ %to, %in.time ]
  %rest = sub i64 %units, %from
  %is.last = icmp sle i64 %rest, %step
  %taken = select i1 %is.last, i64 %rest, i64 %step
  %to = add i64 %from, %taken
  br i1 %share, label %shared, label %serial
shared:
  call void @run_shared(ptr %pool, ptr %mine, i64 %count, i64 %from, i64 %to, ptr %status)
  br label %after
serial:
  call void @run_alone(ptr %mine, i64 %count, i64 %from, i64 %to, ptr %local, ptr %status)
  br label %after
after:
  %code = load atomic i64, ptr %status acquire, align 8
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %check.time
fail:
  store i64 0, ptr %ready.p
  ret i64 %n
check.time:
  %now = call i64 @now_ns(ptr %clock)
  %late = icmp sgt i64 %now, %deadline
  br i1 %is.last, label %region.end, label %unfinished
unfinished:
  br i1 %late, label %pause.inside, label %in.time
in.time:
  br label %part
pause.inside:
  store i64 %to, ptr %ready.p
  ret i64 %r
region.end:
  store i64 0, ptr %ready.p
  %r.next = add i64 %r, 1
  br i1 %late, label %pause.between, label %region.done
pause.between:
  ret i64 %r.next
region.done:
  br label %loop
out:
  ret i64 %n
}
"""
