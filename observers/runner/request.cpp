#include "request.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace tare::runner {
namespace {

[[noreturn]] void usage_error(const std::string& what) {
  std::fprintf(stderr, "tare-launch: %s\n", what.c_str());
  std::exit(2);
}

template <typename Number>
Number parse_number(std::string_view option, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    usage_error(std::string(option) + " wants a number, not '" + std::string(text) + "'");
  return value;
}

Counter parse_counter(std::string_view text) {
  const auto first = text.find(':');
  const auto second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos)
    usage_error("--counter wants NAME:TYPE:CONFIG");
  return {std::string(text.substr(0, first)),
          parse_number<std::uint32_t>("--counter", text.substr(first + 1, second - first - 1)),
          parse_number<std::uint64_t>("--counter", text.substr(second + 1))};
}

cpu_set_t parse_list(std::string_view option, std::string_view text) {
  cpu_set_t places;
  if (!parse_places(std::string(text), places))
    usage_error(std::string(option) + " wants a list like 0,2-3, not '" + std::string(text) + "'");
  return places;
}

HugePages parse_huge_pages(std::string_view text) {
  if (text == "as-the-machine-says") return HugePages::kAsTheMachineSays;
  if (text == "never") return HugePages::kNone;
  if (text == "where-advised") return HugePages::kWhereAdvised;
  usage_error("--huge-pages wants as-the-machine-says, never or where-advised");
}

}  // namespace

Request parse(int argc, char** argv) {
  Request request;
  int index = 1;
  for (; index < argc; ++index) {
    const std::string_view option = argv[index];
    if (option == "--") break;
    if (index + 1 >= argc) usage_error(std::string(option) + " wants a value");
    const std::string_view value = argv[++index];
    if (option == "--stdin") {
      request.input = value;
    } else if (option == "--stdout") {
      request.output = value;
    } else if (option == "--stderr") {
      request.errors = value;
    } else if (option == "--directory") {
      request.directory = value;
    } else if (option == "--timeout-ms") {
      request.timeout = parse_number<Nanoseconds>(option, value) * kMillisecond;
    } else if (option == "--sample-ms") {
      request.sample_interval = parse_number<Nanoseconds>(option, value) * kMillisecond;
    } else if (option == "--memory-limit") {
      request.memory_limit = parse_number<std::uint64_t>(option, value);
    } else if (option == "--output-limit") {
      request.output_limit = parse_number<std::uint64_t>(option, value);
    } else if (option == "--report-fd") {
      request.report_fd = parse_number<int>(option, value);
    } else if (option == "--counter") {
      request.counters.push_back(parse_counter(value));
    } else if (option == "--processors") {
      request.setting.processors = parse_list(option, value);
    } else if (option == "--memory-nodes") {
      request.setting.nodes = parse_list(option, value);
    } else if (option == "--huge-pages") {
      request.setting.huge_pages = parse_huge_pages(value);
    } else if (option == "--group") {
      request.groups.emplace_back(value);
    } else {
      usage_error("unknown option " + std::string(option));
    }
  }
  if (index + 1 >= argc) usage_error("no program after --");
  request.command = argv + index + 1;
  return request;
}

}  // namespace tare::runner
