"""Values as people type them, for rows of training: texts of plain words, names that people give their files.

No evaluation set draws from here, so that sets stay the same when training gets more of it.
"""

import re

from . import strangers
from .own_tools import Machine
from .values import FOLDERS, PEOPLE, SERVICES, Values
from .words import Words, duration


def _words(text):
    return text.split()


# The parts of texts; underscores join several words.
_PARTS = {
    "do": """ask book bring call carry check choose clean collect copy cook count cut draw drop empty feed fetch fill find
        finish fold get give hang help invite iron keep learn leave lend lift look_for look_up mail make measure meet mend
        move order pack paint pay pick_up plan plant polish post practise prepare print put_away read remember renew
        rent repair return sell send share sign sort stop_by study sweep switch_off take_out talk_to tell test thank tidy
        try turn_on visit wait_for walk warn wash watch water write""",
    "thing": """account address apples bag battery bed bill blanket boat books bottle box bread bulb bus_pass cake camera
        candles car card cat chair cheese coat code coffee computer cup curtains desk dinner dog door engine essay
        exam fence fish floor form fruit game garage garden gas_meter gate glass gloves grass guitar hat heater house
        invitation jacket jar kettle key kitchen ladder lamp laundry lawn letter library_book light list lock lunch
        machine mail map meat medicine mirror music newspaper note oil onions oven paint paper parcel passport pears
        phone photo picture pizza plan plants plate pump rice ring roof rug salad salt school shelf shirt shoes
        soap socks sofa soup stairs stamps stove sugar suit table tea tent tools towel toys train_pass trousers
        umbrella vase wallet washing watch""",
    "who": """aunt_Rose my_boss my_brother my_sister the_boss the_plumber the_neighbours grandma grandpa the_kids the_baker
        the_landlord the_team the_teacher the_vet our_guests everybody nobody somebody mr_Miller mrs_Hall dr_Stone""",
    "day": """today tomorrow tonight Sunday Wednesday Thursday Saturday next_week this_evening next_month in_March in_June
        on_Sunday on_Wednesday on_Thursday before_noon after_lunch at_noon every_day once_a_week at_dawn by_May
        in_two_days over_the_weekend since_last_year until_October""",
    "where": """at_home at_school at_the_station at_work behind_the_house by_the_door by_the_lake in_the_box
        in_the_basket in_the_kitchen in_the_shed in_town on_the_desk on_the_shelf on_the_table on_the_left to_the_bank
        to_the_shop to_town under_the_bed under_the_mat up_the_hill upstairs with_the_others from_the_market in_London
        to_Berlin from_Oslo in_the_blue_folder in_the_log_book as_a_file into_the_bin""",
    "is": "is was isn't will_be must_be should_be can_be seems looks may_be is_not has_to_be",
    "like": """bad better big black blue brown cheap clean closed cold dark dead dry early easy empty expensive far fast fine
        free fresh full good great green grey hard heavy hot hungry important late lazy lost low new nice off old open
        orange out_of_stock over quiet ready really_good red running safe sharp short shut slow small soft sold_out
        stopped strong sweet tired too_loud too_small true under_way urgent very_old warm wet white wrong yellow young""",
    "i": "I we you they he she it",
    "did": """ate asked bought broke built called cleaned closed counted deleted dropped feel finished forgot found gave got
        had heard know left like lost love made met missed moved need opened ordered paid promised read ran saw sent sold
        started stopped think told took tried turned_off used want went_home wrote""",
    "one": """a an my the our his her your some any no more this that those these two three 4 6 8 10 15 20 100 half_of all
        the_big the_old the_red a_new another one each""",
    "aside": """maybe soon again really finally at_last after_all instead of_course don't_forget remember_that i_think
        hopefully for_now as_always just_in_case""",
    "word": """hello ok test done no maybe later ready none empty todo ping on off true false xyz foo
        lorem tbd n/a welcome hurrah wow sorry stop go start""",
    "computer": """add append copy delete move write read save remove rename find search list stop restart run open close put
        note overwrite replace make create""",
    "file": """file folder list note notes document line text log program service backup copy word page entry name end bottom
        report letter""",
    "key": "color width height mode level user port debug host lang size max min speed theme delay retries title",
    "joint": "and or but then so because if when while before after with without",
}
_PARTS = {name: [part.replace("_", " ") for part in _words(text)] for name, text in _PARTS.items()}
_TEXTS = """
{do} {one} {thing} | {do} {thing} | {do} {thing} {day} | {do} {one} {thing} {where} | {do} {who} {day}
{do} {person} {day} | {do} {person} at {hour} | {do} {thing} and {thing} | {do} {thing}, {do} {thing} | {thing} and {thing}
{thing}, {thing} and {thing} | {thing}, {thing}, {thing} | {person}, {person} and {person} | {one} {thing} {is} {like}
{one} {thing} {is} {where} | {thing} {day} | {who} {day} | {thing} {where} | {who} {did} {one} {thing} | {i} {did} {one} {thing}
{i} {did} {thing} {where} | {i} {did} {one} {thing} {joint} {i} {did} {who} | {person} {did} {one} {thing} {day}
{person} {is} {like} | {word} | {word} | {word} {word} | {like} | {like} and {like} | {like} {thing} | {number} | {number} {thing}
{thing}: {number} | {thing} = {number} | {do} {one} {thing} {joint} {do} {thing} | {aside}, {do} {one} {thing}
{do} {one} {thing} {aside} | {aside} {i} {did} {thing} | {one} {thing} for {who} | {one} {thing} for {person} {day}
{thing} to {do} | {one} {thing} to {do} {day} | what to {do} {day} | how to {do} {one} {thing} | no {thing} {where}
{who} says {i} {did} {one} {thing} | the number of {person} is {number} | {thing} at {hour} {where} | {like} {joint} {like}
{one} {thing} that {i} {did} {is} {like} | {thing} {number} | {number} and {number} | version {number} | page {number} of {one} {thing}
dear {person}, {i} {did} {one} {thing} | hi {person} | dear {who} | {do} the {like} {thing} | see you {where} {day}
{do} {one} {thing} {where} {day} and {do} {one} {thing} | {do} {one} {thing} in {number} days | {i} {did} it {where}
this {thing} {is} {like} | it {is} {like} {where} | {like} as {like} | {do} everything {where} | {thing} with {thing}
{thing} in {thing} | {thing} to {thing} | {do} {thing} as {thing}
{i} {did} {one} {thing} {day}, and {who} {did} {thing} {where} | {do} {one} {thing}, then {do} {thing} {where}, then {do} {who}
{day} {i} {did} {one} {thing} {where} {joint} it {is} {like} | {one} {thing} {is} {like} {joint} {one} {thing} {is} {like}
{do} {one} {thing} {where} {day}, {do} {thing} and {do} {who} at {time} | {who} {did} {thing}, {thing} and {thing} {day}
if {one} {thing} {is} {like}, {do} {who} | when {who} {did} {one} {thing}, {do} {one} {like} {thing} {where}
{i} {did} {number} {thing}, {number} {thing} and {one} {thing} | {who} thinks that {one} {thing} {is} {like}, but {i} {did} {thing}
{person} and {person} {did} {one} {thing} {where} at {time} | dear {person}, {one} {thing} {is} {like}, see you {day}
{who} at {time} | {time} {thing} | {time} {do} {thing} | {time} - {do} {who} | {time}: {person}, {time}: {who} | from {time} to {time} {thing}
{day} at {time}: {do} {thing} | {thing} {date} | {date}: {do} {one} {thing} | {person} {date} {time} | {thing} due {date} | {date} {i} {did} {thing}
{person} {phone} | {person}: {phone} | call {who} at {phone} | {do} {person}, {phone}, {day} | the number of {who} is {phone} | {phone}
{person} {mail} | {person}: {mail} | {mail} | mail {thing} to {mail} | send {mail} {one} {thing} | {person}, {phone}, {mail} | write to {mail} {day}
{thing} {price} | {thing}: {price} | {thing} {price}, {thing} {price} | {one} {thing} costs {price} | {person} owes me {price} | {price} for {thing}
paid {price} for {one} {thing} {day} | {who} {did} {price} {where} | {number} {thing} at {price} | total {price} | rent {price} {day}
{person} {place} | {person} lives in {place} | {thing} from {place} to {place} | {number} {place} street | meet {person} in {place} at {time}
flight to {place} at {time} {day} | {person} moved to {place} in {year} | born in {place} in {year} | {thing} of {year} | {year}: {i} {did} {thing}
where {is} {one} {thing}? | who {did} {one} {thing}? | what {is} {like}? | when do {i} {do} {one} {thing}? | how much is {one} {thing}?
why {is} {one} {thing} {like}? | did {who} {do} {one} {thing} {day}? | can {i} {do} {thing} {where}? | is {one} {thing} {where}? {i} {did} it
ask {person}: {is} {one} {thing} {like}? | which {thing} {is} {like}, {one} {thing} or {one} {thing}?
{computer} {one} {file} {where} | {computer} the {file} {day} | {computer} {thing} to {one} {thing} | {computer} {thing} from the {file}
{one} {file} {is} {like} | {one} {file} {is} in {one} {file} | no {file} in {one} {file} | {i} {did} {one} {file} {day} | {file} {number} {is} {like}
{do} {one} {thing} and {computer} {one} {file} | do not {computer} {one} {file} | don't {computer} the {file} {where} | never {computer} {one} {thing}
{computer} me to {do} {thing} | {file} and {file} {is} {like} | {who} must {computer} the {file} in {number} days | new {file}: {thing}
to {do}: {thing}, {thing} | in {place} {one} {thing} {is} {like} | to {person}: {do} {thing} | in {number} days {do} {one} {thing} | as {i} {did}, {like}
that {i} {did} {thing} is {like} | at {time} in {place} | with {person} and {person} | for {person}: {thing} | {computer} line {number}
{number}. {do} {thing} | {number}) {thing} | - {do} {thing} | * {thing} | #{number} {thing} | {thing} ({like}) | {thing} ({number}) | {thing}/{thing}
{like}; {like} | {thing}; {thing}; {thing} | {thing} - {like} | {thing} x{number} | {number}x {thing} | {number}% of {one} {thing} | {thing} & {thing}
{key}={number} | {key} = {like} | {key}: {like} | {key}={like} {key}={number} | {key}: {number}, {key}: {number} | {number}, {number}, {number}
{number} + {number} | {number} kg {thing} | {number} litres of {thing} | half a {thing} and {number} g {thing} | {number} of {number} {thing}
https://{site} | see https://{site} | look at {site} {day} | password {key}{number} | room {number}, {place} | bus {number} at {time} | {like}! {like}!
{i} {did} {who}; {who} {did} {one} {thing} | {like}. {do} {one} {thing}. {do} {who} | {i} {did} it. it {is} {like} | no, {one} {thing} {is} {like}
""".replace("\n", "|").split("|")
_TEXTS = [" ".join(text.split()) for text in _TEXTS if text.strip()]

# Texts that say what to do, without a time or a number of days, which could be taken for that of a reminder.
_ERRANDS = [text for text in _TEXTS if text.startswith("{do}") and not re.search("{(hour|time|date|number)}", text)]
_ABOUT = ["{one} {thing}", "{one} {thing}", "{thing}", "the {like} {thing}", "{person}", "{who}", "{thing} {where}", "{one} {thing} for {who}"]
_ABOUT += ["{thing} and {thing}", "{one} {thing} of {person}"]

# Names that people give to files and folders, and how files end.
_NAMES = _words(
    """agenda album alarm app archive attic bank basics bike bills birthday blog book books bookmarks budget build calls cars
    chapter chess class clients club code conf contacts copy cv demo dinner dishes drinks engine errors exam example
    expenses faq favourites film films first food footage form friends games gifts goals guests guide header history home house
    howto img index info input inventory invoice items jobs jokes journey key kitchen lab lecture lessons letter library links
    log lyrics mail main makefile manual map meeting members memo menu model money movies my-notes names-of-cats new news numbers
    order out output page paper party people pets phone places plants2 players points presents prices private project proposal
    query questions quotes random rates readings reasons rent-2024 result results resume review rooms rota route rules sales
    sample schedule school scratch script second seeds settings setup short song songs source speech staff start stats stories
    story study summary system table talk tasks tax team template temp test1 text thanks things thoughts tips tools trip tv
    untitled update usage users vocabulary walks week weather wishes words work year zoo""".replace("-of-", "_of_")
)
_ENDS = """txt txt txt txt txt md md md log csv json toml conf text rs py c h js html css xml yaml yml ini cfg sh bin dat tar gz
    zip tgz pdf odt docx xlsx tex bib png jpg jpeg gif svg mp3 wav ogg mp4 bak old tmp iso img lock out o a""".split()
_FOLDERS = FOLDERS + """books bills bin cfg data demo desktop documents downloads etc films games home images inbox inbox2 lab
    lib mail media misc notes2 papers pics private public school shared site songs src stuff taxes tests tools trash
    uploads videos web www 2019 2022 2023""".split()


# Services and programs of other systems, and things that people call services.
_SERVICES = _words(
    """apache apache2 httpd nginx caddy lighttpd haproxy traefik squid varnish tomcat gunicorn sshd ssh telnetd ftpd vsftpd proftpd sftp
    rsyncd inetd xinetd cron crond atd anacron systemd-networkd networkmanager wpa-supplicant dhcpd dhcpcd dnsmasq named bind9 unbound
    ntpd chronyd timesyncd postfix exim sendmail dovecot opendkim spamd clamd fail2ban iptables firewalld ufw auditd rsyslogd syslogd
    journald logrotate logstash fluentd promtail postgres postgresql mysql mysqld mariadb mongod redis redis-server memcached
    cassandra influxdb elasticsearch solr sqlite-sync rabbitmq kafka zookeeper mosquitto mqtt zigbee zwave nats etcd consul vault
    docker dockerd containerd podman kubelet libvirtd qemu-agent lxd snapd cupsd cups saned lpd avahi avahi-daemon bluetoothd
    pulseaudio pipewire alsa gdm lightdm xorg samba smbd nmbd nfsd autofs iscsid multipathd mdadm smartd lvm zfs-zed openvpn
    wireguard strongswan stunnel tor ldap slapd sssd kerberos krb5kdc radius freeradius snmpd collectd telegraf grafana prometheus
    node-exporter alertmanager zabbix-agent nagios netdata uptimed watchdog acpid upsd apcupsd thermald fancontrol jenkins gitea
    gitlab-runner minecraft plex jellyfin transmission deluged syncthing nextcloud owncloud matrix-synapse prosody icecast mpd
    homeassistant octoprint frigate motion printer printers scanner print mail mailer backup backups music radio fax camera cameras
    webcam heating lights door doorbell alarm alarms sensors sensor telemetry thermostat dns dhcp vpn proxy cache database db web
    website webserver chat sync clock time calendar search index mirror queue payments billing invoices orders tickets booking
    library phone sms voice video stream player game gameserver lobby wiki forum archive archiver metrics monitor monitoring
    gateway router bridge balancer auth login sso licences inventory scheduler importer labels label-printer barcode weather
    irrigation milking feeder pump pumps plc modbus opcua gps ais sonar autopilot night-backup backup-night report-mailer
    pdf-maker transcoder updater keyserver timeserver fileserver printserver mailserver dbserver gamebot"""
)
_PROGRAMS = _words(
    """python python3 perl ruby node java lua bash sh make cmake gcc clang cargo rustc go git svn tar gzip gunzip zip unzip xz bzip2
    7z rsync scp curl wget ping traceroute dig nslookup netstat ss ip ifconfig top htop free df du ls cat less head tail sort uniq
    cut tr sed awk grep find xargs diff patch cmp md5sum sha256sum base64 hexdump xxd strings file stat touch cp mv ln chmod date
    cal uptime uname hostname whoami id env printenv echo printf seq factor bc dc expr units convert mogrify ffmpeg ffprobe sox
    lame flac pdftotext pandoc latex aspell spell wc2 nano vim emacs jq yq sqlite3 psql mysqldump pg_dump dd
    mkfs fsck badblocks memtest stress bench fio lint fmt test runtests backup cleanup report export import migrate deploy rollback
    simulate plot gnuplot render solve fit calc moonphase converter thumbs resize ocr scan2pdf barcode
    invoicer payroll stocktake rename-all dedupe checksum verify mirror fetch poll collect aggregate anonymize encrypt decrypt
    keygen passgen dice quiz hangman tetris snake chess solitaire"""
)


# What a name gets to distinguish a copy, and what goes before it.
_BEHIND = _words("-copy _copy -old _old -new -2 2 -v2 _v2 -backup -final -orig -draft -1 1 .bak .old .orig .1 ~ (1)")
_BEFORE = _words("old- new- copy-of- copy_of_ my- old_ new_ backup- a-")


class Typed(Values):
    """Values of which many are as people type them, or made of long lists of words."""

    # The share of names that are made of those.
    made = 0.4

    def __init__(self, random, held_out=False):
        super().__init__(random, held_out)
        self.from_words = Words(random)

    def _made(self):
        return self.chance(self.made)

    def slot(self, name):
        kind = name.rstrip("0123456789")
        if kind == "duration":
            return duration(self.random)
        made = {
            "flag": self.from_words.flag,
            "name": self.from_words.stem,
            "part": self.from_words.part,
            "word": self._word_of_lists,
        }
        return made[kind]() if kind in made and self._made() else super().slot(name)

    def _word_of_lists(self):
        if self.chance(0.6):
            return self.from_words.word("nouns", "nouns", "adjectives", "verbs")
        return self.from_words.word("surnames", "firstnames", "towns", "identifiers")

    def slots(self, names, before=None):
        """Two files that are talked about often have similar names: a copy, another version, another kind, the same
        elsewhere."""
        found = super().slots(names)
        for name in names:
            first = found.get(f"{name[:-1]}1", before)
            if name[:-1] in ("path", "file") and name[-1:] in ("2", "3") and first and self.chance(0.45):
                found[name] = self._like(first, name[:-1] == "path")
        return found

    def _like(self, path, elsewhere):
        """A path that resembles another; only a path may be in another folder."""
        folder, joint, file = path.rpartition("/")
        stem, dot, end = file.rpartition(".")
        stem, end = (stem, dot + end) if stem else (file, "")
        kind = self.random.random()
        if elsewhere and kind < 0.2:
            return file if folder and self.chance(0.3) else f"{self.folder()}/{file}"
        if kind < 0.45:
            file = stem + self.choose([".bak", ".old", ".orig", "." + self.choose(_ENDS), "." + self.choose(_ENDS)])
        elif kind < 0.75:
            file = stem + self.choose(_BEHIND) + end
        elif kind < 0.83:
            file = self.choose(_BEFORE) + stem + end
        elif kind < 0.9 and (year := re.search("[0-9]+", stem)):
            file = stem[: year.start()] + str(int(year.group()) + self.random.randint(1, 3)) + stem[year.end() :] + end
        elif kind < 0.95 and len(stem) > 3:
            at = self.random.randrange(1, len(stem) - 1)
            file = stem[:at] + stem[at + 1] + stem[at] + stem[at + 2 :] + end
        else:
            file = self.name() + end
        found = folder + joint + file
        return found if found != path else folder + joint + self.file_name()

    def text(self):
        """A text in plain words, which no stranger typed."""
        while (text := self._text()) in strangers.texts():
            pass
        return text

    def _text(self):
        text = self._filled(self.choose(_TEXTS))
        if self.chance(0.25):
            text = text[:1].upper() + text[1:]
        return text + (self.choose([".", "!", "?"]) if self.chance(0.12) else "")

    def _filled(self, text):
        while found := _OPEN.search(text):
            text = text[: found.start()] + self.part_of_text(found.group(1)) + text[found.end() :]
        return text

    def errand(self):
        return self._filled(self.choose(_ERRANDS)) if self.chance(0.8) else super().errand()

    def about(self):
        return self._filled(self.choose(_ABOUT)) if self.chance(0.8) else super().about()

    def part_of_text(self, name):
        """A value for an open place of a text."""
        if name == "person":
            return self.choose(PEOPLE).capitalize() if self.chance(0.5) else self.choose(PEOPLE)
        if name == "number":
            return str(self.number())
        if name == "hour":
            return self.choose(["{0}", "{0}:30", "{0} pm", "{0}pm", "{0} o'clock"]).format(self.random.randint(1, 12))
        if name in _MADE:
            return _MADE[name](self)
        if name in ("thing", "who", "like", "do") and self.chance(0.3):
            if name == "who":
                return self.from_words.person()
            return self.from_words.word({"thing": "nouns", "like": "adjectives", "do": "verbs"}[name])
        # An unknown word instead of a known one has to be copied as well.
        return self.word() if self.chance(0.06) else self.choose(_PARTS[name])

    def sentence(self, least=1, most=6):
        return self.text() if self.chance(0.7) else super().sentence(least, most)

    def file_name(self):
        if self._made():
            return self.from_words.file_name()
        if self.chance(0.4):
            return super().file_name()
        name = self.choose(_NAMES)
        if self.chance(0.12):
            name += self.choose(["-", "_", ""]) + str(self.random.randint(1, 30))
        elif self.chance(0.12):
            name += self.choose(["-", "_", ""]) + str(self.random.randint(2015, 2035))
        elif self.chance(0.15):
            name += self.choose(["-", "_", "-", ""]) + self.choose(_NAMES)
        elif self.chance(0.04):
            name = self.choose([name.upper(), name.capitalize()])
        # A name may have no ending.
        return name if self.chance(0.12) else f"{name}.{self.choose(_ENDS)}"

    def folder(self):
        if self._made():
            return self.from_words.folder()
        if self.chance(0.4):
            return super().folder()
        folder = self.choose(_FOLDERS)
        if self.chance(0.35):
            folder += "/" + (self.choose(_NAMES) if self.chance(0.6) else str(self.random.randint(1990, 2023)))
        return folder

    def name_pattern(self):
        if self._made():
            return self.from_words.name_pattern()
        if self.chance(0.3):
            return f"*.{self.choose(_ENDS)}"
        return super().name_pattern()

    def phrase(self):
        if self._made():
            return self.from_words.phrase()
        if self.chance(0.4):
            return super().phrase()
        thing = self.part_of_text(self.choose(["thing", "thing", "who", "person", "day", "like", "do", "number"]))
        return f"{self.part_of_text('like')} {thing}" if self.chance(0.15) else thing

    def service(self):
        if self._made():
            return self.from_words.service()
        return self.choose(_SERVICES) if self.chance(0.4) else super().service()

    def program(self):
        if self._made():
            return self.from_words.program()
        return self.choose(_PROGRAMS) if self.chance(0.35) else super().program()

    def name(self):
        return self.choose(_NAMES) if self.chance(0.15) else super().name()


class TypedMachine(Machine):
    """A machine whose log says more of what logs say."""

    def log_text(self, service):
        if self.values.chance(0.4):
            return super().log_text(service)
        who, number, path = self.values.choose(SERVICES), self.values.number(), self.values.file()
        return self.values.choose(
            [
                f"service `{who}` is restarted: it panicked; the log says where",
                f"service `{who}` cannot be started: there is no {path}",
                f"session {number} ended: exporting",
                f"the export broke off: {self.values.text()}",
                f"the audit log took no record of it: {self.values.text()}",
                f"model capOS {self.values.name()} loaded from {path}, {number} tokens",
                f"model refused: {path} has {number} tensors",
                f"no model: {self.values.text()}",
                f"there is no {path}",
                f"the boot medium is {self.values.name()}",
                f"volume `{self.values.name()}`, {number} sectors",
                f"the drive at port {self.random.randint(0, 5)} cannot be used: {self.values.text()}",
                f"devices found: {number}",
                f"{path} is a link and is left out",
                f"`{self.values.program()}` has ended, and its account still holds {number} pages",
                "turning the machine off",
                "ready",
                self.values.text(),
            ]
        )


def _time(values):
    hour, minute = values.random.randint(0, 23), values.random.choice([0, 5, 10, 15, 20, 30, 40, 45, 50, 55])
    forms = ["{0}:{1:02}", "{0:02}:{1:02}", "{0}.{1:02}", "{2} pm", "{2}pm", "{2} am", "half past {2}", "{2}:{1:02} am"]
    return values.choose(forms).format(hour, minute, hour % 12 or 12)


_MONTHS = _words("January February March April May June July August September October November December")


def _date(values):
    day, month, year = values.random.randint(1, 28), values.random.randint(1, 12), values.random.randint(2019, 2031)
    forms = ["{0} {3}", "{3} {0}", "{0}.{1}.", "{0}.{1}.{2}", "{2}-{1:02}-{0:02}", "{1}/{0}", "{0}. {3}", "{3} {2}"]
    return values.choose(forms).format(day, month, year, _MONTHS[month - 1])


def _digits(values, count):
    return "".join(str(values.random.randint(0, 9)) for _ in range(count))


def _phone(values):
    form = values.choose(["0## ######", "0###-######", "+## ### #######", "0##########", "###-####", "### ## ##", "0## / #####"])
    return "".join(_digits(values, 1) if sign == "#" else sign for sign in form)


def _site(values):
    ending = values.choose(["com", "org", "net", "de", "info", "example", "co.uk"])
    return f"{values.choose(['', '', 'www.', 'shop.'])}{values.word()}.{ending}"


def _mail(values):
    name = values.choose(PEOPLE) + values.choose(["", f".{values.word()}", f"_{values.word()}", str(values.number())])
    return f"{name}@{_site(values).removeprefix('www.')}"


def _price(values):
    whole, cents = values.number(), _digits(values, 2)
    forms = ["{0} euros", "{0},{1} euros", "{0}.{1}", "${0}", "${0}.{1}", "{0} dollars", "{0}.{1} EUR", "£{0}", "{0} pounds", "{0} €"]
    return values.choose(forms).format(whole, cents)


# Parts of texts that are made of digits and signs, and names of places.
_MADE = {
    "time": _time,
    "date": _date,
    "phone": _phone,
    "mail": _mail,
    "site": _site,
    "price": _price,
    "year": lambda values: str(values.random.randint(1900, 2030)),
    "place": lambda values: values.choose([*_PLACES, values.word().capitalize()]),
}
_PLACES = _words("Paris London Berlin Oslo Rome Vienna Madrid Lisbon Prague Dublin Bern Boston Chicago Cairo Tokyo Delhi Lima")
_OPEN = re.compile(r"\{(\w+)\}")
