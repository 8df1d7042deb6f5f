// SPDX-License-Identifier: Apache-2.0
// The first and only process of the emulated machine: runs the lines of /commands, each a CPU
// target (- for none), a program and its arguments, with all output on the console, and ends the
// machine.
#include <sys/io.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void become(std::vector<std::string> words) {
  setenv("SPEC_DECODE_OPS_CPU_TARGET", words[0] == "-" ? "" : words[0].c_str(), 1);
  dup2(STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (size_t i = 1; i < words.size(); ++i) arguments.push_back(words[i].data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  std::perror(arguments[0]);
  std::_Exit(127);
}

void run(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  std::printf("=== run\n");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) become(words);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("\n=== ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  std::fflush(stdout);
}

// Through a port of the emulator's own.
void power_off() {
  tcdrain(STDOUT_FILENO);  // the serial line has its pace
  iopl(3);
  for (const char letter : {'S', 'h', 'u', 't', 'd', 'o', 'w', 'n'}) outb(letter, 0x8900);
}

}  // namespace

int main() {
  std::ifstream commands("/commands");
  for (std::string line; std::getline(commands, line);) run(line);
  power_off();
}
