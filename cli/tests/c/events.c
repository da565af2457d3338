/* Prints the state of the port of metaroce0 and each asynchronous event, until PORT_ACTIVE. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	int n;
	struct ibv_context *c = NULL;
	struct ibv_device **l = ibv_get_device_list(&n);
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(l[i]), "metaroce0"))
			c = ibv_open_device(l[i]);
	if (!c)
		return 1;
	for (;;) {
		struct ibv_port_attr p;
		struct ibv_async_event e;
		if (ibv_query_port(c, 1, &p))
			return 2;
		printf("%s\n", ibv_port_state_str(p.state));
		fflush(stdout);
		if (ibv_get_async_event(c, &e))
			return 3;
		printf("%s of port %d\n", ibv_event_type_str(e.event_type), e.element.port_num);
		ibv_ack_async_event(&e);
		if (e.event_type == IBV_EVENT_PORT_ACTIVE)
			break;
	}
	return ibv_close_device(c) ? 4 : 0;
}
