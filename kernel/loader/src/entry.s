# Where the Multiboot2 boot loader enters: 32-bit protected mode, paging off, eax = magic, ebx = information.
# Leads into 64-bit mode with the first 4 GiB mapped twice: at 0, and at the direct map's place.

.section .multiboot2, "a"
.balign 8
multiboot2_header:
    .long 0xe85250d6
    .long 0                                     # 32-bit protected mode of x86
    .long multiboot2_header_end - multiboot2_header
    .long 0x100000000 - (0xe85250d6 + (multiboot2_header_end - multiboot2_header))
    # Modules on page boundaries.
    .balign 8
    .short 6, 0
    .long 8
    # A framebuffer if there can be one; no wish as to its size.
    .balign 8
    .short 5, 1
    .long 20, 0, 0, 0
    # End.
    .balign 8
    .short 0, 0
    .long 8
multiboot2_header_end:

.section .text.entry, "ax"
.code32
.global loader_entry
loader_entry:
    cli
    cld
    mov esp, offset loader_stack_top
    cmp eax, 0x36d76289
    mov esi, offset text_not_multiboot2
    jne refuse

    # Processors without CPUID cannot toggle bit 21 of the flags.
    pushfd
    pop eax
    mov ecx, eax
    xor eax, 0x200000
    push eax
    popfd
    pushfd
    pop eax
    xor eax, ecx
    test eax, 0x200000
    mov esi, offset text_no_long_mode
    jz refuse

    mov edi, ebx                                # cpuid overwrites ebx
    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    mov esi, offset text_no_long_mode
    jb refuse
    mov eax, 0x80000001
    cpuid
    test edx, 0x20000000
    mov esi, offset text_no_long_mode
    jz refuse

    # First 4 GiB in pages of 2 MiB.
    mov eax, 0x83                               # present, writable, large
    mov ecx, offset first_directories
2:  mov [ecx], eax
    mov dword ptr [ecx + 4], 0
    add ecx, 8
    add eax, 0x200000
    jnc 2b
    mov ecx, offset first_pointers
    mov eax, offset first_directories + 3
    mov edx, 4
3:  mov [ecx], eax
    add ecx, 8
    add eax, 0x1000
    dec edx
    jnz 3b
    mov eax, offset first_pointers + 3
    mov [first_root], eax
    mov [first_root + 256 * 8], eax

    mov eax, offset first_root
    mov cr3, eax
    mov eax, cr4
    or eax, 0x20                                # PAE
    mov cr4, eax
    mov ecx, 0xc0000080
    rdmsr
    or eax, 0x100                               # LME
    wrmsr
    mov eax, cr0
    or eax, 0x80010001                          # PG, WP, PE
    mov cr0, eax
    lgdt [first_gdt_pointer]
    push 0x28
    mov eax, offset enter_64
    push eax
    retf

# Prints the text at esi on COM1 and stops.
refuse:
    mov dx, 0x3f9
    xor al, al
    out dx, al                                  # no interrupts
    mov dx, 0x3fb
    mov al, 0x80
    out dx, al
    mov dx, 0x3f8
    mov al, 1
    out dx, al                                  # 115200 baud
    mov dx, 0x3f9
    xor al, al
    out dx, al
    mov dx, 0x3fb
    mov al, 3
    out dx, al                                  # 8 bits, no parity
    mov dx, 0x3fa
    mov al, 7
    out dx, al
4:  mov bl, [esi]
    test bl, bl
    jz 7f
    mov ecx, 0x100000                           # without a port nothing is ever ready
    mov dx, 0x3fd
5:  in al, dx
    test al, 0x20
    jnz 6f
    dec ecx
    jnz 5b
6:  mov dx, 0x3f8
    mov al, bl
    out dx, al
    inc esi
    jmp 4b
7:  hlt
    jmp 7b

.code64
enter_64:
    mov ax, 0x30
    mov ds, ax
    mov es, ax
    mov fs, ax
    mov gs, ax
    mov ss, ax
    mov edi, edi                                # the information's address
    xor ebp, ebp
    call loader_main
8:  hlt
    jmp 8b

# fn enter_kernel(root: rdi, stack: rsi, entry: rdx, gdt_pointer: rcx) -> !
# Runs at its place in the direct map, which both sets of page tables have.
.global enter_kernel
enter_kernel:
    cli
    cld
    lgdt [rcx]
    mov cr3, rdi
    mov rsp, rsi
    push 0x28
    lea rax, [rip + 9f]
    push rax
    retfq
9:  mov ax, 0x30
    mov ds, ax
    mov es, ax
    mov fs, ax
    mov gs, ax
    mov ss, ax
    push 0                                      # there is nothing to return to
    push rdx
    xor eax, eax
    xor ebx, ebx
    xor ecx, ecx
    xor edx, edx
    xor esi, esi
    xor edi, edi
    xor ebp, ebp
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    xor r12d, r12d
    xor r13d, r13d
    xor r14d, r14d
    xor r15d, r15d
    ret

.section .rodata
text_not_multiboot2:
    .asciz "capOS: the loader was not started by a Multiboot2 boot loader.\r\n"
text_no_long_mode:
    .asciz "capOS: this processor has no 64-bit mode (long mode); capOS needs an x86-64 processor.\r\n"

.section .data
.balign 16
.global handover_gdt
handover_gdt:
    .quad 0
    .quad 0x00009b000000ffff                    # 16-bit code
    .quad 0x000093000000ffff                    # 16-bit data
    .quad 0x00cf9b000000ffff                    # 32-bit code
    .quad 0x00cf93000000ffff                    # 32-bit data
    .quad 0x00209b0000000000                    # 64-bit code
    .quad 0x0000930000000000                    # 64-bit data
handover_gdt_end:
first_gdt_pointer:
    .short handover_gdt_end - handover_gdt - 1
    .long handover_gdt
    .long 0

.section .bss
.balign 4096
first_root:
    .skip 4096
first_pointers:
    .skip 4096
first_directories:
    .skip 4 * 4096
loader_stack:
    .skip 512 * 1024
loader_stack_top:
