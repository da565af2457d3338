/* /dev/infiniband/rdma_cm as no library uses it: garbage, bad pointers, poll, threads, fork. One line a check. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#define CHECK(c, ...)                                                                              \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printf("line %d: %s: ", __LINE__, #c);                                     \
			printf(__VA_ARGS__);                                                       \
			printf(" (errno %d)\n", errno);                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define OK(what) (printf("ok %s\n", what), fflush(stdout))

static int open_cm(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0, "open");
	return fd;
}

static int command(int fd, unsigned cmd, void *args, size_t in, size_t out)
{
	char b[1024];
	struct rdma_ucm_cmd_hdr h = { cmd, in, out };
	memcpy(b, &h, sizeof h);
	memcpy(b + sizeof h, args, in);
	errno = 0;
	ssize_t n = write(fd, b, sizeof h + in);
	if (n < 0)
		return -errno;
	CHECK(n == (ssize_t)(sizeof h + in), "whole");
	return 0;
}

static uint32_t create(int fd, uint64_t uid)
{
	struct rdma_ucm_create_id_resp r = { 0 };
	struct rdma_ucm_create_id c = { .uid = uid, .response = (uintptr_t)&r, .ps = RDMA_PS_TCP };
	int e = command(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof c, sizeof r);
	CHECK(e == 0 && r.id, "%d", e);
	return r.id;
}

static int resolve(int fd, uint32_t id, const char *ip)
{
	struct rdma_ucm_resolve_ip c = { .id = id, .timeout_ms = 1000 };
	struct sockaddr_in *to = (void *)&c.dst_addr;
	to->sin_family = AF_INET;
	to->sin_port = htons(77);
	unsigned a, b, d, e;
	sscanf(ip, "%u.%u.%u.%u", &a, &b, &d, &e);
	to->sin_addr.s_addr = htonl(a << 24 | b << 16 | d << 8 | e);
	return command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &c, sizeof c, 0);
}

static int get(int fd, struct rdma_ucm_event_resp *r)
{
	struct rdma_ucm_get_event c = { (uintptr_t)r };
	return command(fd, RDMA_USER_CM_CMD_GET_EVENT, &c, sizeof c, sizeof *r);
}

static int readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static void *waits(void *fd)
{
	struct rdma_ucm_event_resp r;
	CHECK(get((intptr_t)fd, &r) == 0, "a thread's event");
	return (void *)(uintptr_t)r.uid;
}

static void on_alarm(int s)
{
	(void)s;
}

int main(void)
{
	int fd = open_cm();
	char *volatile nowhere = (char *)8;
	struct stat st;
	CHECK(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode), "mode %o", st.st_mode);
	CHECK(stat("/dev/infiniband/rdma_cm", &st) == 0 && S_ISCHR(st.st_mode), "by name");
	OK("a character device");

	/* garbage */
	char zero[1024] = { 0 };
	unsigned seed = 1;
	for (int k = 0; k < 3000; k++) {
		char b[600];
		for (size_t i = 0; i < sizeof b; i++)
			b[i] = rand_r(&seed) % 3 ? 0 : rand_r(&seed);
		struct rdma_ucm_cmd_hdr h = { rand_r(&seed) % 30, rand_r(&seed) % 500, rand_r(&seed) % 500 };
		/* waiting for an event is not garbage */
		if (h.cmd == RDMA_USER_CM_CMD_GET_EVENT)
			continue;
		memcpy(b, &h, sizeof h);
		/* answers, if any, go nowhere */
		memset(b + 8, 0, 16);
		size_t n = rand_r(&seed) % sizeof b;
		ssize_t r = write(fd, b, n);
		CHECK(r == -1 || r == (ssize_t)n, "%zd", r);
	}
	CHECK(write(fd, zero, 7) == -1 && errno == EINVAL, "short");
	CHECK(write(fd, nowhere, 100) == -1 && errno == EFAULT, "no memory");
	CHECK(command(fd, 99, zero, 0, 0) == -EINVAL, "no command");
	CHECK(command(fd, RDMA_USER_CM_CMD_JOIN_MCAST, zero, 160, 4) == -ENOSYS, "multicast");
	CHECK(command(fd, RDMA_USER_CM_CMD_LISTEN, zero, 8, 0) == -ENOENT, "no identifier");
	CHECK(command(fd, RDMA_USER_CM_CMD_CONNECT, zero, 100, 0) == -EINVAL, "short arguments");
	close(fd);
	OK("garbage is an errno");

	fd = open_cm();
	struct rdma_ucm_create_id c = { .uid = 1, .response = 8, .ps = RDMA_PS_TCP };
	CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof c, 4) == -EFAULT, "answer nowhere");
	c.response = (uintptr_t)zero;
	CHECK(command(fd, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof c, 3) == -ENOSPC, "no room");
	struct rdma_ucm_set_option o = { .optval = 8, .id = create(fd, 1), .optlen = 1 };
	CHECK(command(fd, RDMA_USER_CM_CMD_SET_OPTION, &o, sizeof o, 0) == -EFAULT, "value nowhere");
	o.optval = (uintptr_t)zero;
	CHECK(command(fd, RDMA_USER_CM_CMD_SET_OPTION, &o, sizeof o, 0) == 0, "an option");
	o.optlen = 70000;
	CHECK(command(fd, RDMA_USER_CM_CMD_SET_OPTION, &o, sizeof o, 0) == -EINVAL, "endless value");
	OK("pointers");

	/* events: level-triggered, one for each */
	uint32_t id = create(fd, 0x1234), second = create(fd, 0x5678);
	CHECK(!readable(fd), "nothing yet");
	CHECK(resolve(fd, id, "10.0.0.2") == 0 && resolve(fd, second, "10.0.0.9") == 0, "resolve");
	CHECK(readable(fd), "an event");
	int ep = epoll_create1(0);
	struct epoll_event want = { .events = EPOLLIN }, have;
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &want) == 0, "epoll");
	CHECK(epoll_wait(ep, &have, 1, 0) == 1, "epoll sees it");
	struct rdma_ucm_event_resp r;
	CHECK(get(fd, &r) == 0 && r.uid == 0x1234 && r.id == id && r.event == 0, "%u", r.event);
	CHECK(readable(fd), "another one");
	CHECK(get(fd, &r) == 0 && r.uid == 0x5678 && r.event == 1 && (int)r.status < 0, "%u", r.event);
	CHECK(!readable(fd), "no more");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	CHECK(get(fd, &r) == -EAGAIN, "does not wait");
	fcntl(fd, F_SETFL, 0);
	struct sigaction act = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &act, NULL);
	alarm(1);
	CHECK(get(fd, &r) == -EINTR, "a signal ends the wait");
	/* an event of an identifier that goes is shown no more */
	CHECK(resolve(fd, second, "10.0.0.2") == 0 && readable(fd), "resolve again");
	struct rdma_ucm_destroy_id_resp reported = { 0 };
	struct rdma_ucm_destroy_id d = { (uintptr_t)&reported, second, 0 };
	CHECK(command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &d, sizeof d, sizeof reported) == 0, "destroy");
	CHECK(reported.events_reported == 1 && !readable(fd), "%u", reported.events_reported);
	OK("events");

	/* hundreds unread, then all of them */
	uint32_t many[700];
	for (int k = 0; k < 700; k++) {
		many[k] = create(fd, 1 + k);
		CHECK(resolve(fd, many[k], "10.0.0.1") == 0, "%d", k);
	}
	for (int k = 0; k < 700; k++) {
		CHECK(readable(fd), "%d", k);
		CHECK(get(fd, &r) == 0 && r.uid == 1ull + k, "%d", k);
	}
	CHECK(!readable(fd), "one too many");
	OK("many events");

	/* threads that wait get one each */
	pthread_t t[4];
	uintptr_t sum = 0;
	for (int k = 0; k < 4; k++)
		pthread_create(&t[k], NULL, waits, (void *)(intptr_t)fd);
	for (int k = 0; k < 4; k++)
		CHECK(resolve(fd, create(fd, 1u << k), "10.0.0.1") == 0, "%d", k);
	for (int k = 0; k < 4; k++) {
		void *uid;
		pthread_join(t[k], &uid);
		sum += (uintptr_t)uid;
	}
	CHECK(sum == 15 && !readable(fd), "%zu", (size_t)sum);
	OK("threads");

	/* a child shares the channel; another channel does not see its identifiers */
	pid_t pid = fork();
	if (pid == 0)
		_exit(resolve(fd, create(fd, 0x99), "10.0.0.1") != 0);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%x", status);
	CHECK(get(fd, &r) == 0 && r.uid == 0x99, "the child's event");
	int other = open_cm();
	CHECK(resolve(other, id, "10.0.0.1") == -EINVAL, "another channel's");
	OK("fork");

	/* moving */
	CHECK(resolve(fd, many[0], "10.0.0.1") == -EINVAL, "resolved already");
	uint32_t mover = create(fd, 0x77);
	CHECK(resolve(fd, mover, "10.0.0.1") == 0 && readable(fd) && !readable(other), "before");
	struct rdma_ucm_migrate_resp mr = { 9 };
	struct rdma_ucm_migrate_id m = { (uintptr_t)&mr, mover, fd };
	CHECK(command(other, RDMA_USER_CM_CMD_MIGRATE_ID, &m, sizeof m, sizeof mr) == 0, "migrate");
	CHECK(mr.events_reported == 0 && !readable(fd) && readable(other), "after");
	CHECK(get(other, &r) == 0 && r.uid == 0x77, "its event");
	m.fd = 1;
	CHECK(command(other, RDMA_USER_CM_CMD_MIGRATE_ID, &m, sizeof m, sizeof mr) == -EINVAL, "from no channel");
	OK("moving");

	/* with a source address: the first bytes are no pointer then */
	struct rdma_ucm_resolve_ip both = { .id = create(fd, 0x55) };
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000002) };
	memcpy(&both.src_addr, &from, sizeof from);
	from.sin_addr.s_addr = htonl(0x0a000001);
	memcpy(&both.dst_addr, &from, sizeof from);
	CHECK(command(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &both, sizeof both, 0) == 0, "from an address");
	CHECK(get(fd, &r) == 0 && r.uid == 0x55 && r.event == 0, "%u", r.event);
	OK("source address");

	/* one too many, of 1,024 or of what may be open */
	static int crowd[1100];
	int most = 0;
	while (most < 1100 && (crowd[most] = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC)) >= 0)
		most++;
	CHECK(most > 100 && most < 1025 && errno == EMFILE, "%d, errno %d", most, errno);
	while (most > 0)
		close(crowd[--most]);
	close(open_cm());
	OK("channels");

	/* the number is another file's */
	close(other);
	int null = open("/dev/null", O_WRONLY);
	CHECK(null == other && write(null, zero, 100) == 100, "/dev/null at %d", null);
	OK("closed");
	return 0;
}
