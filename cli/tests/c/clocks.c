/* A program that measures and has signal handlers of its own, under --card-time. Exit status 0 = all is well. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

extern char **environ;
static sigjmp_buf back;
static volatile sig_atomic_t faults, alarms;
static volatile uint64_t in_handler;

#define CHECK(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); exit(1); } } while (0)

static void fault(int s, siginfo_t *i, void *c)
{
	(void)s; (void)c;
	CHECK(i->si_addr == (void *)0);
	in_handler = __rdtsc();
	faults++;
	siglongjmp(back, 1);
}

static void on_alarm(int s) { (void)s; in_handler = __rdtsc(); alarms++; }

static uint64_t ns(clockid_t c)
{
	struct timespec t;
	CHECK(clock_gettime(c, &t) == 0);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The counter and the clocks are one time: 10 ticks a ns. */
static void clocks_agree(void)
{
	struct timeval v0, v1;
	uint64_t t0 = __rdtsc(), m0 = ns(CLOCK_MONOTONIC);
	CHECK(gettimeofday(&v0, NULL) == 0);
	do {
		CHECK(gettimeofday(&v1, NULL) == 0);
	} while ((v1.tv_sec - v0.tv_sec) * 1000000 + v1.tv_usec - v0.tv_usec < 50000);
	unsigned core;
	uint64_t t1 = __rdtscp(&core), m1 = ns(CLOCK_MONOTONIC);
	uint64_t us = (v1.tv_sec - v0.tv_sec) * 1000000 + v1.tv_usec - v0.tv_usec;
	CHECK(t1 > t0 && m1 > m0);
	double by_day = (double)(t1 - t0) / us, by_mono = (double)(t1 - t0) / (m1 - m0);
	printf("%.1f ticks a us of the day, %.3f a ns\n", by_day, by_mono);
	CHECK(by_day > 9800 && by_day < 10300 && by_mono > 9.8 && by_mono < 10.2);
	CHECK(llabs((long long)time(NULL) - v1.tv_sec) < 3600);
}

/* Two clocks asked one after the other show one time, and a wait on both in turn ends. */
static void one_look(void)
{
	struct timeval v;
	uint64_t t0 = 0, us0 = 0, last = 0;
	for (int k = 0; k < 300; k++) {
		/* twice: the second look is the one that takes time along */
		__rdtsc();
		uint64_t t = __rdtsc();
		CHECK(gettimeofday(&v, NULL) == 0);
		uint64_t us = v.tv_sec * 1000000ull + v.tv_usec;
		if (k == 0) {
			t0 = t;
			us0 = us;
		}
		int64_t off = (int64_t)((t - t0) / 10) - (int64_t)((us - us0) * 1000);
		CHECK(off > -1000 && off < 1000);
		CHECK(t > last);
		last = t;
	}
	uint64_t m0 = ns(CLOCK_MONOTONIC), d;
	do {
		CHECK(gettimeofday(&v, NULL) == 0);
		d = ns(CLOCK_MONOTONIC) - m0;
	} while (d < 2000000);
}

/* How perftest learns the frequency, on a processor that two others want as well: no sample is off by their time. */
static void calibration_under_load(void)
{
	cpu_set_t was, one;
	pid_t busy[2];
	CHECK(sched_getaffinity(0, sizeof was, &was) == 0);
	int cpu = 0;
	while (!CPU_ISSET(cpu, &was))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
	for (int k = 0; k < 2; k++) {
		busy[k] = fork();
		if (busy[k] == 0)
			for (volatile unsigned n = 0;; n++)
				;
	}
	for (int k = 0; k < 400; k++) {
		struct timeval v0, v1;
		CHECK(gettimeofday(&v0, NULL) == 0);
		uint64_t t0 = __rdtsc();
		int64_t us;
		do {
			CHECK(gettimeofday(&v1, NULL) == 0);
			us = (v1.tv_sec - v0.tv_sec) * 1000000 + v1.tv_usec - v0.tv_usec;
		} while (us < 100 + 2 * k);
		int64_t ticks = __rdtsc() - t0;
		if (llabs(ticks - 10000 * us) > 10000 * 100)
			printf("sample %d: %lld ticks, %lld us\n", k, (long long)ticks, (long long)us);
		CHECK(llabs(ticks - 10000 * us) <= 10000 * 100);
	}
	for (int k = 0; k < 2; k++) {
		int st;
		kill(busy[k], SIGKILL);
		waitpid(busy[k], &st, 0);
	}
	CHECK(sched_setaffinity(0, sizeof was, &was) == 0);
}

static void *thread(void *p)
{
	(void)p;
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return (void *)(uintptr_t)(__rdtsc() != 0);
}

int main(void)
{
	clocks_agree();
	if (getenv("METAROCE_CARD_TIME")) {
		one_look();
		calibration_under_load();
	}

	/* A fault of the program is for its own handler, also a second time. */
	struct sigaction a, old;
	memset(&a, 0, sizeof a);
	a.sa_sigaction = fault;
	a.sa_flags = SA_SIGINFO;
	CHECK(sigaction(SIGSEGV, &a, &old) == 0 && old.sa_handler == SIG_DFL);
	CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == fault);
	for (int k = 0; k < 2; k++)
		if (sigsetjmp(back, 1) == 0)
			*(volatile int *)0 = k;
	CHECK(faults == 2 && in_handler != 0);
	clocks_agree();

	/* Blocked signals, in this thread, another one, and in a handler that blocks all. */
	sigset_t all;
	sigfillset(&all);
	CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
	CHECK(__rdtsc() != 0);
	pthread_t t;
	void *r;
	CHECK(pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, &r) == 0 && r);
	CHECK(sigprocmask(SIG_UNBLOCK, &all, NULL) == 0);
	memset(&a, 0, sizeof a);
	a.sa_handler = on_alarm;
	a.sa_mask = all;
	CHECK(sigaction(SIGALRM, &a, NULL) == 0);
	in_handler = 0;
	struct itimerval soon = {{0, 0}, {0, 10000}};
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	while (!alarms)
		__rdtsc();
	CHECK(in_handler != 0);

	/* Waiting with a limit is libc's business, which reads the counter in the kernel's code. */
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	struct timespec past = {1, 0};
	pthread_mutex_lock(&m);
	CHECK(pthread_cond_timedwait(&c, &m, &past) != 0);
	usleep(1000);

	/* Other programs start and end as ever. */
	int st;
	CHECK(system("true") == 0 && system("exit 3") == 3 << 8);
	FILE *f = popen("echo word", "r");
	char line[16];
	CHECK(f && fgets(line, sizeof line, f) && !strcmp(line, "word\n") && pclose(f) == 0);
	char *args[] = {"true", NULL};
	pid_t p;
	CHECK(posix_spawnp(&p, "true", NULL, NULL, args, environ) == 0);
	CHECK(waitpid(p, &st, 0) == p && st == 0);
	p = fork();
	if (p == 0) {
		execvp("no-such-program", args);
		if (__rdtsc() == 0)
			_exit(9);
		execvp("true", args);
		_exit(8);
	}
	CHECK(waitpid(p, &st, 0) == p && st == 0);
	clocks_agree();

	/* Without a handler a fault ends the program, as SIGSEGV. */
	p = fork();
	if (p == 0) {
		CHECK(signal(SIGSEGV, SIG_DFL) == (void (*)(int))fault);
		*(volatile int *)0 = 1;
		_exit(7);
	}
	CHECK(waitpid(p, &st, 0) == p && WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
	puts("all is well");
	return 0;
}
