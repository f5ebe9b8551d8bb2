# capOS: a thin front of the host command line `capos` (tools/capos). `make help` lists what there is.

CARGO ?= cargo
CAPOS := target/debug/capos
# Of the whole workspace, so that what it depends on is compiled with the features that tests need and not once more.
BUILD := $(CARGO) build --workspace --bin capos

# With LINTS=1 `make test` checks lints too. The compiler with lints compiles host code, so tests and lints share one build.
# Guest code it only checks, and the compiler builds it (tools/lint-and-compile.sh). Options for it have this form, and the
# features are those of `capos lint`. Other commands do not check lints.
ifeq ($(LINTS),1)
ifeq ($(MAKECMDGOALS),test)
export RUSTC_WORKSPACE_WRAPPER := clippy-driver
export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
BUILD += --features capos-audit/measure,capos-home-keys/measure
endif
else ifneq ($(LINTS),)
$(error LINTS=$(LINTS) is not LINTS=1)
endif

# If a variable is given more than once, make keeps the last value. MODEL may name several models, so this reads all of
# them from make's own command line. So make iso MODEL=one.gguf MODEL=two.gguf is the same as make iso MODEL='one.gguf
# two.gguf'.
MODELS := $(shell tr '\0' '\n' < /proc/$$PPID/cmdline 2>/dev/null | \
    awk '/^MODEL:?=/ { sub(/^MODEL:?=/, ""); all = n++ ? all " " $$0 : $$0 } END { if (n > 1) print all }')
ifneq ($(MODELS),)
override MODEL := $(MODELS)
endif

# Published models that MODEL may name: each short name, and the file that is fetched for it.
PUBLISHED := smollm2=smollm2-135m-instruct-q4_1 gemma-3=gemma-3-270m-q4_k_m qwen2.5-coder-1.5b=qwen2.5-coder-1.5b-instruct-q4_k_m
named_by = $(firstword $(subst =, ,$(1)))
kept_as = target/models/$(lastword $(subst =, ,$(1))).gguf
ifneq ($(filter $(foreach named,$(PUBLISHED),$(call named_by,$(named))),$(MODEL)),)
$(foreach named,$(PUBLISHED),$(eval override MODEL := $(patsubst $(call named_by,$(named)),$(call kept_as,$(named)),$(MODEL))))
iso run run-uefi: $(filter $(foreach named,$(PUBLISHED),$(call kept_as,$(named))),$(MODEL))
endif
$(foreach named,$(PUBLISHED),$(eval $(call kept_as,$(named)): ; @python3 tools/infer/compare/trained.py target/models $(basename $(notdir $(call kept_as,$(named))))))

# Variables of the command line, for example: make run ACCEL=tcg, make run-agent SCENARIO=dir OUT=dir, make iso
# MODEL=one.gguf. Only those that are set are passed on: an empty value is not the same as none.
$(foreach name,ACCEL LIMINE_DIR DATA DATA_SIZE STICK CLIENT CPUS MEMORY MODEL SUMMARISES SCENARIO OUT LINUX_KERNEL LINTS,$(if $($(name)),$(eval export $(name)),$(eval unexport $(name))))

# Said before anything is built; `capos` knows the same names.
ACCELERATORS := tcg kvm hvf whpx nvmm
ifneq ($(filter-out $(ACCELERATORS),$(ACCEL)),)
$(error ACCEL=$(ACCEL) is not an accelerator; use one of: $(ACCELERATORS))
endif

# A target that needs a variable: its name, the variable, an example of a value.
needs = $(if $(filter $(1),$(MAKECMDGOALS)),$(if $($(2)),,$(error make $(1) needs a $(2): make $(1) $(2)=$(3))))
$(call needs,new-service,NAME,field-notes)
$(call needs,new-app,NAME,letter-count)
$(call needs,profile,FIGURE,null_call)
$(call needs,mutants,CRATE,backup)

# What sessions begin with where no other model is asked for: the one that this project trains.
iso run run-uefi: export MODEL := $(or $(MODEL),iso_root/boot/models/assistant.gguf)

.DEFAULT_GOAL := help
.PHONY: deps tools iso run run-uefi run-agent test test-std update-test format-disk bench profile bench-std bench-store bench-token bench-first-token bench-infer judge-infer trained-models fuzz crash dojo loom sanitize mutants new-service new-app fmt lint docs clean help

help:
	@echo 'Run'
	@echo '  make run                    build capOS and boot it in this terminal (installs what is missing first)'
	@echo '  make run-uefi               the same with UEFI firmware'
	@echo '  make iso                    build target/capos.iso'
	@echo '  make trained-models         download three trained models into target/models, 1.5 GB'
	@echo 'Test'
	@echo '  make test                   run every test; ends with "N passed, N failed"; ONLY=text: tests with it in their name, or of that group; LINTS=1: lints too'
	@echo '  make update-test            migrate a disk to a newer version and back, with a power cut in between; OUT=dir'
	@echo '  make test-std               run upstream test suites of std on capOS; ONLY=text'
	@echo '  make run-agent              run a scenario: SCENARIO=dir OUT=dir; the smoke scenario by default'
	@echo '  make lint                   check formatting and lints'
	@echo '  make fuzz                   fuzz parsers and kernel operations: TARGET=names FUZZ_SECONDS=60 FUZZ_SEED=1'
	@echo '  make crash                  let the power fail under what lasts, on a simulated disk and in QEMU: CRASHES=1000000 KILLS=500 RUN_KILLS=100 CRASH_SEED=0 ONLY=text'
	@echo '  make dojo                   play 320 pairs of a task and an injected goal, and score the effects; ONLY=suite'
	@echo '  make format-disk            make and pack a disk of this version'"'"'s formats for tests/formats'
	@echo '  make loom                   model-check locks, waits and rings'
	@echo '  make sanitize               run crates with unsafe code under AddressSanitizer and Miri: CRATES=names'
	@echo '  make mutants CRATE=name     change the code of a crate in one place after the other, and run its own tests: SHARD=0/8'
	@echo 'Extend'
	@echo '  make tools                  build the host command line, target/debug/capos'
	@echo '  make new-service NAME=name  create a service: schema, program, manifest entry, a tool for the agent'
	@echo '  make new-app NAME=name      create a program on std'
	@echo '  make fmt                    format the source'
	@echo '  make docs                   build the book and the API pages'
	@echo 'Measure'
	@echo '  make bench                  measure the system, into target/bench.json'
	@echo '  make profile FIGURE=name    list the functions that execute a figure'"'"'s instructions, for example null_call'
	@echo '  make bench-std              compare std on capOS with the bare runtime and Linux, into target/bench-std.json'
	@echo '  make bench-store            compare durable commits and a large file with SQLite and ext4 on Linux, into target/bench-store.json'
	@echo '  make bench-token            count instructions per token on capOS and Linux, into target/bench-token.json'
	@echo '  make bench-first-token      measure power-on to first answer on capOS and Linux, into target/bench-first-token.json'
	@echo '  make bench-infer            compare the inference engine with llama.cpp, into target/bench-infer.json'
	@echo '  make judge-infer            compare tokens and logits of the inference engine with those of llama.cpp'
	@echo 'Maintain'
	@echo '  make deps                   install what the build needs, or list it'
	@echo '  make test-deps              install what only tests need: an ACP client'
	@echo '  make clean                  remove everything built, but not target/data.img'
	@echo
	@echo 'Variables'
	@echo '  ACCEL=tcg|kvm|hvf|whpx|nvmm  QEMU accelerator; by default KVM if it works, otherwise tcg'
	@echo '  MEMORY=MiB                  of the virtual machine, at least 256; by default 512 plus the size of the models'
	@echo '  CPUS=number                 of the virtual machine; by default those of the host, at most 4'
	@echo '  DATA=file|none              data disk of make run; by default target/data.img, created on first use'
	@echo '  DATA_SIZE=8G                size of a new data disk, 1M to 8T'
	@echo '  CONSOLE=capos-agent         console of an image: a part of the commands, for requests alone'
	@echo '  STICK=file                  attach this file to make run as a stick, created with a FAT volume on first use'
	@echo '  CLIENT=socket               port of make run for an editor, see docs/clients.md'
	@echo '  MODEL=file.gguf             sign this model and put it on the image; repeatable; sessions start with the first'
	@echo '  MODEL=$(firstword $(foreach named,$(PUBLISHED),$(call named_by,$(named))))               the same with a published model, which is fetched: $(foreach named,$(PUBLISHED),$(call named_by,$(named)))'
	@echo '  SUMMARISES=file.gguf        of the models, this one can summarise a conversation; its signature says so'
	@echo '  LIMINE_DIR=dir              boot with this Limine release instead of GRUB'
	@echo '  LINUX_KERNEL=file           kernel for comparisons with Linux; by default Debian'"'"'s is downloaded'

deps:
	@tools/deps.sh

# What only tests need besides.
.PHONY: test-deps
test-deps: deps
	@tools/deps.sh --tests

# cargo waits for another build in this folder, and with --quiet says nothing.
tools: deps
	@if command -v flock >/dev/null && test -e target/debug/.cargo-lock && ! flock --nonblock target/debug/.cargo-lock true; then \
	    echo 'Waiting for another build in this folder to end.'; fi
	@if test -x $(CAPOS); then $(BUILD) --quiet; else \
	    echo 'Building the host tools (1 of 4). The first build of the whole system takes ten to twenty minutes, once.'; \
	    $(BUILD); fi

iso: tools
	@$(CAPOS) iso

run: tools
	@$(CAPOS) run

run-uefi: tools
	@$(CAPOS) run --firmware uefi

run-agent: tools
	@$(CAPOS) run-agent

test: test-deps tools
	@$(CAPOS) test $(ONLY)

update-test: tools
	@$(CAPOS) run-agent --scenario tests/scenarios/upgrade

format-disk: tools
	@$(CAPOS) run-agent --scenario tests/formats/scenario --out target/format-disk
	@gzip -9nc target/format-disk/data.img > target/format-disk/disk.gz
	@echo 'target/format-disk/disk.gz is a disk of these formats; docs/upgrade.md says what to do with it'

test-std: tools
	@$(CAPOS) test-std $(ONLY)

bench: tools
	@$(CAPOS) bench

profile: tools
	@$(CAPOS) profile $(FIGURE)

bench-std: tools
	@$(CAPOS) bench-std

bench-store: tools
	@$(CAPOS) bench-store

bench-token: tools
	@$(CAPOS) bench-token

dojo: tools
	@$(CAPOS) dojo $(ONLY)

bench-first-token: tools
	@CAPOS=$(CAPOS) tools/infer/compare/first-token.sh

bench-infer:
	@tools/infer/compare/bench.sh

judge-infer:
	@tools/infer/compare/judge.sh

trained-models:
	@python3 tools/infer/compare/trained.py target/models

fuzz: tools
	@$(CAPOS) fuzz $(TARGET) $(if $(FUZZ_SECONDS),--seconds $(FUZZ_SECONDS)) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

crash: tools
	@$(if $(CRASHES),CRASHES=$(CRASHES)) $(if $(CRASH_SEED),CRASH_SEED=$(CRASH_SEED)) $(if $(KILLS),KILLS=$(KILLS)) $(if $(RUN_KILLS),RUN_KILLS=$(RUN_KILLS)) $(CAPOS) crash $(ONLY)

sanitize:
	@tools/sanitize.sh

mutants:
	@tools/mutants.sh $(CRATE) $(SHARD)

loom:
	@RUSTFLAGS='--cfg loom' $(CARGO) test -p capos-sync --target-dir target/loom --test interleavings

new-service: tools
	@$(CAPOS) new-service $(NAME)

new-app: tools
	@$(CAPOS) new-app $(NAME)

fmt:
	@$(CARGO) fmt --all

lint: tools
	@$(CAPOS) lint

docs: tools
	@tools/docs.sh

clean:
	@rm -rf docs/book
	@if test -d target; then find target -mindepth 1 -maxdepth 1 ! -name data.img -exec rm -rf {} +; fi
	@if test -e target/data.img; then echo 'Kept target/data.img, the data disk of make run. Remove it yourself if you do not need it.'; \
	    else rm -rf target; fi
