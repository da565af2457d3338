// Built twice. As a library: a libibverbs with a known suffix and a table that no release has. As a program: loads the
// provider as libibverbs does.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef ENTRIES
void verbs_register_driver_65(void *ops)
{
	printf("registered\n");
}
void *_verbs_init_and_alloc_context(void)
{
	return NULL;
}
void verbs_uninit_context(void)
{
}
void verbs_set_ops(uintptr_t *context, const uintptr_t *ops)
{
	// The pointer to the private part, behind FRONT members that release 34 does not have.
	memcpy((uintptr_t *)context[26 + FRONT] + 3, ops, ENTRIES * sizeof(*ops));
}
#else
extern void verbs_uninit_context(void);
int main(int argc, char **argv)
{
	verbs_uninit_context();
	if (!dlopen(argv[1], RTLD_NOW))
		printf("%s\n", dlerror());
	return 0;
}
#endif
